// @alone
// @long
import { afterAll } from "vitest";
import { requirement } from "../_require.ts";
import { shareOf } from "../_share.ts";

/** The figures of a desk whose store is a database: one of these files at each commit. */
const FILES = ["figures", "figures-seen"];

requirement("postgres").describe("on Postgres", async () => {
  process.env.SVC_TEST_STORE = "postgres";
  // How its lists are read does not depend on their length; those of the folder are a month's.
  process.env.SVC_DESK_JOBS ??= "240";
  afterAll(() => {
    delete process.env.SVC_TEST_STORE;
    delete process.env.SVC_DESK_JOBS;
  });
  for (const file of shareOf(FILES, FILES.length)) {
    await import(/* @vite-ignore */ new URL(`${file}.test.ts`, import.meta.url).pathname);
  }
});

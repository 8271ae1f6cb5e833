// @alone
// @long
import { afterAll } from "vitest";
import { requirement } from "../_require.ts";
import { shareOf } from "../_share.ts";

/** The figures of a desk whose store is a database: one of these files at each commit. */
const FILES = ["figures", "figures-seen"];

requirement("postgres").describe("on Postgres", async () => {
  process.env.SVC_TEST_STORE = "postgres";
  afterAll(() => {
    delete process.env.SVC_TEST_STORE;
  });
  for (const file of shareOf(FILES, FILES.length)) {
    await import(/* @vite-ignore */ new URL(`${file}.test.ts`, import.meta.url).pathname);
  }
});

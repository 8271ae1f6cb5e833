import { afterAll } from "vitest";
import { requirement } from "../_require.ts";
import { shareOf } from "../_share.ts";

/** Files of this folder whose jobs live in `emptyStore()`. */
const FILES = [
  "replay",
  "resumed",
  "children",
  "held",
  "contested",
  "suspend-steer",
  "events-received",
  "retries",
  "code-changes",
  "stopped-while-left",
];

requirement("postgres").describe("on Postgres", async () => {
  process.env.SVC_TEST_STORE = "postgres";
  afterAll(() => {
    delete process.env.SVC_TEST_STORE;
  });
  for (const file of shareOf(FILES, FILES.length)) await import(`./${file}.test.ts`);
});

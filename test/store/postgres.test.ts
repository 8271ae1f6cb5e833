// @long
import { afterAll, beforeAll, describe, it } from "vitest";
import { fenceTests } from "../../src/core/store/contract/fences.ts";
import { inFolder, type StoreTest, withStore } from "../../src/core/store/contract/fixtures.ts";
import { transactionTests } from "../../src/core/store/contract/transactions.ts";
import type { StoreFactory } from "../../src/core/store/store.ts";
import { storeContract } from "../../src/core/store/store-contract.ts";
import { PgliteServer } from "../_pglite.ts";
import { openInSchema } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { shareOf } from "../_share.ts";

const whole = { describe, it, persistent: true, shared: true };
const server = requirement("postgres");

server.describe("Postgres", () => {
  storeContract({ ...whole, name: "Postgres store", open: openInSchema });
});

/** Where no server is installed, the whole contract runs on Postgres in this process; else this is only to keep working. */
const ways = server.met ? shareOf(["a part", ...Array<undefined>(11)], 12) : ["all"];

for (const way of ways.filter((each) => each !== undefined)) {
  describe("PGlite", () => {
    let pglite: PgliteServer;
    beforeAll(async () => {
      pglite = await PgliteServer.start();
    });
    afterAll(() => pglite.close());
    const open: StoreFactory = (context) => pglite.open(context);
    const test: StoreTest = (title, work) =>
      it(title, () => inFolder(async (dataDir) => withStore(open, dataDir, work)));

    if (way === "all") storeContract({ ...whole, name: "PGlite store", open });
    else {
      describe("transactions", () => transactionTests(test));
      describe("fences and hints", () => fenceTests(test));
    }
  });
}

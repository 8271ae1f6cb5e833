import { type NamesOf, refuseUnknown } from "../base/refuse-unknown.ts";
import { difficultTests } from "./contract/difficult.ts";
import { entityTests } from "./contract/entities.ts";
import { failFirstCommits } from "./contract/fail-first-commits.ts";
import { fenceTests } from "./contract/fences.ts";
import { inFolder, type StoreTest, withStore } from "./contract/fixtures.ts";
import { isolationTests } from "./contract/isolation.ts";
import { listTests } from "./contract/lists.ts";
import { logTests } from "./contract/logs.ts";
import { persistenceTests } from "./contract/persistence.ts";
import { transactionTests } from "./contract/transactions.ts";
import type { StoreFactory } from "./store.ts";

export interface StoreContractOptions {
  readonly describe: (name: string, tests: () => void) => void;
  readonly it: (name: string, test: () => Promise<void>) => void;
  /** Name of the implementation, for the names of the tests. */
  readonly name: string;
  readonly open: StoreFactory;
  /** Whether data is still there when the same folder is opened again. @default false */
  readonly persistent?: boolean;
  /** Whether several can have the same data open; otherwise a second opening must be refused. @default false */
  readonly shared?: boolean;
}

const NAMES: NamesOf<StoreContractOptions> = {
  ...{ describe: true, it: true, name: true, open: true, persistent: true, shared: true },
};

/**
 * The guarantees of every store, for any test runner that has `describe` and `it`.
 *
 * @example
 * storeContract({ describe, it, name: "my store", open: openMyStore, persistent: true });
 */
export function storeContract(options: StoreContractOptions): void {
  refuseUnknown(options, NAMES, "storeContract");
  const { describe, it, name } = options;
  const test: StoreTest = (title, work) =>
    it(title, () => inFolder(async (dataDir) => withStore(options.open, dataDir, work)));

  const testTwice: StoreTest = (title, work) => test(title, (store) => work(failFirstCommits(store)));

  describe(`${name}: entities`, () => entityTests(test));
  describe(`${name}: concurrency and isolation`, () => isolationTests(test));
  describe(`${name}: lists`, () => listTests(test));
  describe(`${name}: transactions`, () => transactionTests(test));
  describe(`${name}: fences and hints`, () => fenceTests(test));
  describe(`${name}: transactions and fences, each work run twice`, () => {
    transactionTests(testTwice);
    fenceTests(testTwice);
  });
  describe(`${name}: logs`, () => logTests(test));
  describe(`${name}: difficult values`, () => difficultTests(test));
  if (options.persistent === true) describe(`${name}: opened again`, () => persistenceTests(it, options));
}

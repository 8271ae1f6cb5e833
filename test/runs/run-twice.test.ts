// @alone
import { describe } from "vitest";
import { failFirstCommits } from "../../src/core/store/contract/fail-first-commits.ts";
import { TransactionalStore } from "../../src/core/store/engine/transactional-store.ts";
import type { Store } from "../../src/core/store/store.ts";
import { shareOf } from "../_share.ts";

/*
 * Some suites, with a store that runs each transaction's work twice and discards the first time: as one does that many
 * instances share. Work that has an effect outside of its transaction has it twice, or for nothing.
 */

const once = TransactionalStore.prototype.transaction;
TransactionalStore.prototype.transaction = function (work, options) {
  const store = { transaction: once.bind(this), hints: this.hints } as Pick<Store, "transaction" | "hints">;
  return failFirstCommits(store as Store).transaction(work, options);
};

// So few programs that those of some days hardly wait: always the same ones, which do.
process.env.SVC_PROGRAMS = "12";
process.env.SVC_SEED = "20784000000";

const SUITES: Readonly<Record<string, () => Promise<unknown>>> = {
  programs: () => import("./programs.test.ts"),
  children: () => import("./children.test.ts"),
  "events received": () => import("./events-received.test.ts"),
  suspend: () => import("./suspend.test.ts"),
  questions: () => import("./questions.test.ts"),
  override: () => import("./override.test.ts"),
  "behind the end": () => import("./behind-the-end.test.ts"),
  limits: () => import("./limits.test.ts"),
  steps: () => import("./steps.test.ts"),
};

for (const name of process.env.SVC_TWICE ? process.env.SVC_TWICE.split(",") : shareOf(Object.keys(SUITES), 3))
  describe(`${name}, where each transaction's work is run twice`, async () => void (await SUITES[name]!()));

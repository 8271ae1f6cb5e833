import type { MaybePromise } from "../base/maybe-promise.ts";
import type { StoredCase } from "../models/case.ts";
import type { CaseNodeUpdate } from "../models/case-node-update.ts";
import type { StoredJob } from "../models/job.ts";
import type { BudgetUse } from "../models/spending.ts";
import type { Transaction } from "../store/store.ts";

/** A stored change of a job or case: what participants add to and observers receive. */
export type Change =
  | { kind: "job:created"; job: StoredJob }
  /** `finished` follows in the same transaction if the status became terminal. */
  | { kind: "job:changed"; job: StoredJob; previous: StoredJob; by?: string }
  | { kind: "job:finished"; job: StoredJob; previous: StoredJob; by?: string }
  /** It left the lists; it may be restored until it is erased. */
  | { kind: "job:deleted"; job: StoredJob; by?: string }
  | { kind: "job:restored"; job: StoredJob; by?: string }
  /** Nothing of it is left; in the transaction of `deleted` where it cannot be restored. */
  | { kind: "job:erased"; job: StoredJob; by?: string }
  /** A share of an agent's budget is used, such as 0.8. */
  | ({ kind: "budget:reached"; share: number } & BudgetUse)
  | { kind: "case:opened"; case: StoredCase }
  /** `update` is the entry that the change added, if any. */
  | { kind: "case:changed"; case: StoredCase; previous: StoredCase; update?: CaseNodeUpdate; by?: string }
  | { kind: "case:deleted"; case: StoredCase; by?: string }
  /** One that was deleted alone; those of a job return with `job:restored`. */
  | { kind: "case:restored"; case: StoredCase; by?: string };

/** Ids of jobs and cases that may have changed; `all` where it is not known which. */
export interface Touched {
  readonly jobs: readonly string[] | "all";
  readonly cases: readonly string[];
}

/**
 * Writes more in the transaction of a change, such as an event to be sent.
 * It may only use `tx`; when it throws, the change does not happen.
 */
export type Participant = (change: Change, tx: Transaction) => MaybePromise<void>;

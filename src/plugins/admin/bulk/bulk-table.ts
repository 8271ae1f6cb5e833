import type { Actor } from "../../../core/audit/caller.ts";
import { rowTable } from "../../../core/store/row-table.ts";
import type { TableSpec } from "../../../core/store/store.ts";

export type BulkAction = "stop" | "retry" | "continue" | "restart" | "resume" | "delete" | "restore";
export type BulkState = "preview" | "running" | "done" | "aborted";

/** Limits that a resumed job gets in place of its own. */
export type RaisedLimits = Readonly<Partial<Record<"max_cost" | "max_duration" | "max_cases", number>>>;

/** An action on many entities, as every instance sees it. */
export interface BulkRow {
  readonly id: string;
  readonly kind: "jobs" | "cases";
  readonly action: BulkAction;
  /** The limits that the jobs get with "resume". */
  readonly limits?: RaisedLimits | undefined;
  /** Identifies exactly these ids and this action. */
  readonly hash: string;
  /** Their total cost, and how many entities over the limit matched. */
  readonly cost: number;
  readonly leftOut: number;
  readonly createdAt: string;
  /** The caller that previewed it: only they may run it. */
  readonly by: Actor;
  readonly state: BulkState;
  readonly done: number;
  /** Ids that could not be changed, with the reason. */
  readonly failures: Readonly<Record<string, string>>;
  /** When the instance that runs it has last said so; milliseconds since the epoch. */
  readonly alive: number;
}

/** The entities of an operation: apart from it, as they do not change with its progress. */
export interface BulkSelection {
  /** The operation's. */
  readonly id: string;
  readonly ids: readonly string[];
}

declare module "../../../core/store/stored-types.ts" {
  interface Tables {
    BulkOperation: BulkRow;
    BulkSelection: BulkSelection;
  }
}

export const BULK_TABLE: TableSpec<BulkRow> = rowTable("BulkOperation", {
  index: ({ createdAt }) => ({ created_at: Date.parse(createdAt) }),
  sorted: ["created_at"],
});

export const BULK_SELECTION_TABLE: TableSpec<BulkSelection> = rowTable("BulkSelection");

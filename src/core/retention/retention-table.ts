import type { TableSpec } from "../store/store.ts";
import type { RemovedBatch } from "./sweep.ts";

/** What retention has removed, in one row with the id `state`. */
export interface RetentionState {
  readonly id: string;
  /** When it last removed something, ISO 8601. */
  readonly at: string;
  /** Removed in all since `since`. */
  readonly jobs: number;
  readonly cases: number;
  readonly since: string;
  readonly last: RemovedBatch;
}

export const RETENTION_TABLE: TableSpec<RetentionState> = {
  name: "Retention",
  version: 1,
  entity: false,
  index: () => ({}),
  facets: [],
  sorted: [],
};

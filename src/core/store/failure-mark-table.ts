import { rowTable } from "./row-table.ts";
import type { TableSpec, Tables } from "./store.ts";

declare module "./stored-types.ts" {
  interface Tables {
    /** What a person has decided about a reason of failures, by the reason. */
    FailureMark: {
      readonly id: string;
      /** `resolved` until a job fails for it again, `muted` until somebody opens it again. */
      readonly state: "resolved" | "muted";
      readonly by: string;
      readonly at: string;
      /** When the last job failed that was known to the person who resolved it; null of one that is muted. */
      readonly until: string | null;
    };
  }
}

/** What a person has decided about a reason of failures. */
export type FailureMark = Tables["FailureMark"];

export const FAILURE_MARK_TABLE: TableSpec<FailureMark> = rowTable("FailureMark");

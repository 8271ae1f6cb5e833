import type { LogLevel } from "../../../core/base/log.ts";
import { rowTable } from "../../../core/store/row-table.ts";
import type { TableSpec } from "../../../core/store/store.ts";

/** A line of the log of a job, without secrets. */
export interface JobLine {
  /** ISO 8601. */
  readonly time: string;
  readonly level: LogLevel;
  readonly message: string;
  /** The line's other fields as text. */
  readonly fields: string;
}

/** A part of a job's log. */
export interface JobLogPart {
  /** The job's id and the number of the part. */
  readonly id: string;
  readonly job_id: string;
  /** From 0; the oldest ones are removed. */
  readonly part: number;
  readonly lines: readonly JobLine[];
}

declare module "../../../core/store/stored-types.ts" {
  interface Tables {
    JobLog: JobLogPart;
  }
}

export const JOB_LOG_TABLE: TableSpec<JobLogPart> = rowTable("JobLog", {
  index: ({ job_id, part }) => ({ job_id, part }),
  facets: ["job_id"],
});

import type { StoredCase } from "./case.ts";
import type { CaseNodeUpdate } from "./case-node-update.ts";
import type { StoredJob } from "./job.ts";
import type { RunEntry } from "./run-entry.ts";

/** Version of the format, for readers of another version of the service. */
export const EXPORT_FORMAT = 1;

/** One line of an exported job: first the job, then its log, then each case followed by its history. */
export type ExportLine =
  | { readonly type: "job"; readonly format: number; readonly job: StoredJob }
  | { readonly type: "entry"; readonly entry: RunEntry }
  | { readonly type: "case"; readonly case: StoredCase }
  | { readonly type: "update"; readonly update: CaseNodeUpdate }
  /** The last line: without it, the rest is missing. */
  | { readonly type: "end" };

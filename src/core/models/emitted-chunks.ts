import type { CallEntryBase } from "./run-entry.ts";

/** Which attempt of which step has emitted something: of `position` and `case_id`, as in the entries of the run log. */
export interface EmittingStep extends Pick<CallEntryBase, "case_id" | "position" | "name" | "key"> {
  /** Which of the job's runs, from 1. */
  readonly run: number;
  readonly attempt: number;
}

/** Chunks that a step has emitted: an event of the job's stream. */
export interface EmittedChunks extends EmittingStep {
  readonly type: "chunk";
  /** Number of the first of `chunks` among those of the attempt, from 0. */
  readonly index: number;
  readonly chunks: readonly unknown[];
  /** Number of chunks before `index` that this reader does not get: it was too slow, or there were too many. */
  readonly skipped?: number;
}

import { useMemo, useState, useSyncExternalStore } from "react";
import { type JobState, JobView, UNKNOWN } from "./job-view.ts";
import type { AnswerOptions, RemoteJob } from "./remote-job.ts";

export type { JobState, LiveOutput } from "./job-view.ts";

/** A job that a component shows, and what it may do with it. */
export interface UsedJob<Result = unknown> extends JobState<Result> {
  /** Its result; `undefined` until it has completed. */
  readonly result: Result | undefined;
  /** Answers the open question of a case. Rejects with `ClientError`. */
  answer(caseId: string, answer: Readonly<Record<string, unknown>>, options?: AnswerOptions): Promise<void>;
  /** Asks it to stop. Rejects with `ClientError`. */
  stop(): Promise<void>;
}

/**
 * Follows a job while the component is mounted: its state, its record, its cases and their questions, and what its
 * steps emit. Without a job, as long as there is none, it is `loading`.
 *
 * @example
 * const { status, questions, answer, result } = useJob(service.job<"payer">(id));
 */
export function useJob<Result>(job: RemoteJob<Result> | null | undefined): UsedJob<Result> {
  const [held, hold] = useState(job);
  // Each render may make another object for the same job.
  if (held !== job && !(held && job?.isSame(held))) hold(job);
  const view = useMemo(() => (held ? new JobView(held) : undefined), [held]);
  const state: JobState<Result> = useSyncExternalStore(
    view?.watch ?? watchNothing,
    view?.state ?? unknown,
    unknown,
  );
  const isDone = state.job?.status === "completed";
  return {
    ...state,
    result: isDone ? (state.job?.result as Result) : undefined,
    answer: view?.answer ?? noJob,
    stop: view?.stop ?? noJob,
  };
}

const unknown = () => UNKNOWN;
const watchNothing = () => () => {};
const noJob = () => Promise.reject(new Error("There is no job yet"));

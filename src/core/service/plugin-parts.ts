import type { Actor } from "../audit/caller.ts";
import type { Token } from "../base/container.ts";
import type { StreamReader, StreamSource } from "../http/live-streams.ts";
import type { HttpEvent } from "../http/route.ts";
import type { Case, StoredCase } from "../models/case.ts";
import type { CaseNodeUpdate } from "../models/case-node-update.ts";
import type { Job, StoredJob } from "../models/job.ts";
import type { RunEntry } from "../models/run-entry.ts";
import type { AnswerRequest, DeletionOptions, SentEvent, StartRequest } from "../runs/runner.ts";
import type { ListQuery, LogEntry, Page } from "../store/store.ts";
import type { ServiceOptions } from "./service-options.ts";
import * as parts from "./tokens.ts";

export { EVENTS, ROUTER, SESSIONS, STORE } from "./tokens.ts";

/** Reads jobs; `JobControl` starts, stops and removes them. */
export interface JobReader {
  /** The job, if there is one. */
  find(id: string): Promise<StoredJob | undefined>;
  /** The job, or `job_not_found`; with `agentName`, another agent's job is not found either. */
  get(id: string, agentName?: string): Promise<StoredJob>;
  /** The job as the API returns it, with the ids of its cases, oldest first. */
  show(job: StoredJob): Promise<Job>;
  /** Jobs by what their index has. */
  list(query?: ListQuery): Promise<Page<StoredJob>>;
  /** How many jobs have each value of a field. */
  countBy(field: string, query?: Pick<ListQuery, "where" | "search">): Promise<Record<string, number>>;
  /** Lines of a job's run log after number `after`. */
  log(id: string, range?: { after?: number; limit?: number }): Promise<LogEntry<RunEntry>[]>;
}

/** Reads cases. */
export interface CaseReader {
  /** The case with all its updates, if there is one. */
  find(id: string): Promise<Case | undefined>;
  /** The case with all its updates, or `case_not_found`. */
  get(id: string): Promise<Case>;
  /** A job's case by its id or by the id that the agent gave it. */
  ofJob(jobId: string, idOrRef: string): Promise<StoredCase>;
  /** Cases without their updates. */
  list(query?: ListQuery): Promise<Page<StoredCase>>;
  /** The newest updates of a case, oldest first. */
  updates(id: string, newest?: number): Promise<CaseNodeUpdate[]>;
}

/** Starts, stops, answers and removes jobs: it knows what runs. */
export interface JobControl {
  /** Stores the job and queues it. The same request again gives the same job. */
  start(slug: string, request: StartRequest): Promise<StoredJob>;
  /** Asks a job to stop; `cancelling` until the run has ended. A job that has ended stays as it is. */
  stop(jobId: string, by?: Actor): Promise<StoredJob>;
  /** Answers the open question of a job's case, named by id or ref. */
  answer(jobId: string, caseId: string, request: AnswerRequest, by?: Actor): Promise<StoredCase>;
  /** Stores an event for the jobs that wait for one like it, now or later; the same one again changes nothing. */
  receive(name: string, event: SentEvent): Promise<object>;
  /** Runs a failed or cancelled job again: from its last good step, or from the start with nothing recorded. */
  retry(jobId: string, from: "last_step" | "start", by?: Actor): Promise<StoredJob>;
  /** Ends a job and deletes it with its cases: it can be restored for some time, unless it is permanent. */
  remove(jobId: string, by: Actor, options?: DeletionOptions): Promise<object>;
}

/** Checks keys that do not come in a header. */
export interface KeyChecker {
  /** Checks a key from a form: throws where it is wrong, and counts that. */
  checkKey(key: string, event: HttpEvent): void;
}

/** The open event streams of the service. */
export interface EventStreams {
  /** Sends what `source` returns, until it ends, the reader disconnects, the service closes or `over` aborts. */
  open(source: StreamSource, reader?: StreamReader): Response;
}

/** What the service was made with. */
export const OPTIONS: Token<ServiceOptions> = parts.OPTIONS;
/** Reads jobs; `RUNNER` starts, stops, answers and removes them. */
export const JOBS: Token<JobReader> = parts.JOBS;
/** Reads cases; `RUNNER` answers them. */
export const CASES: Token<CaseReader> = parts.CASES;
/** Starts, stops, answers and removes jobs. */
export const RUNNER: Token<JobControl> = parts.RUNNER;
/** Checks keys, for plugins that sign people in. */
export const GATE: Token<KeyChecker> = parts.GATE;
/** The open event streams; they end when the service closes. */
export const STREAMS: Token<EventStreams> = parts.STREAMS;

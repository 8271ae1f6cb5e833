import type { Actor } from "../audit/caller.ts";
import type { MaybePromise } from "../base/maybe-promise.ts";
import type { GivenKey } from "../entities/keyed-requests.ts";
import type { Sight } from "../models/access.ts";
import type { StoredCase } from "../models/case.ts";
import type { EntityStatus } from "../models/entity-status.ts";
import type { StoredJob } from "../models/job.ts";
import type { StartContext } from "../models/job-context.ts";
import type { ExportLine } from "../models/job-export.ts";
import type { JobInstructions } from "../models/job-instructions.ts";
import type { JobResponse } from "../models/job-response.ts";
import type { CaseUpdateRequest } from "../models/question.ts";
import type { StoredEvent } from "../models/received-event.ts";
import type { BegunEntry } from "../models/run-entry.ts";
import type { Schedule } from "../models/schedule.ts";
import type { NamedCall } from "./fork/call-names.ts";

/** A request to start a job, already checked against its schema but not against the method's fields. */
export interface StartRequest {
  /**
   * What is missing is filled in: a new `job_id`, the time, the agent's name as `mission_name`, the job's id as
   * `mission_id`, `started_by` "api", and the workspace of the service's account, else "local".
   */
  readonly job_context?: Partial<StartContext>;
  /** None by default. */
  readonly job_fields?: Readonly<Record<string, unknown>>;
  readonly encrypted_agent_parameters?: string | null;
  /** By which the job is found. @default none */
  readonly tags?: readonly string[] | undefined;
  /** Who may use the uploads in its fields, where that one sees only a part. @default those of everybody */
  readonly uploader?: string;
  /** Jobs whose files its fields may name as they are: the sender sees them. @default none */
  readonly filesOf?: readonly string[];
  /** The access that starts it, where that sees only what it has started. */
  readonly access?: string;
  /** What its sender sees, where that is a part: it has a share of the queue. @default all of it */
  readonly sight?: Sight;
  /** Value of the `Idempotency-Key` header. */
  readonly idempotencyKey?: string;
}

/** A request for a fork, already checked against its schema but not against the method's fields. */
export interface ForkRequest {
  /** The recorded call before which the copied record ends, as `calls` names it; or `start`, or `end` to copy all. */
  readonly from: string;
  /** What its sender sees, where that is a part: it has a share of the queue. @default all of it */
  readonly sight?: Sight;
  /** Who may use the uploads in its fields, where that one sees only a part. @default those of everybody */
  readonly uploader?: string;
  /** Fields that get another value; the others are those of the original. */
  readonly fields?: Readonly<Record<string, unknown>>;
  /** Id of the new job. A new one by default. */
  readonly job_id?: string;
  /** Value of the `Idempotency-Key` header. */
  readonly idempotencyKey?: string;
}

/** An answer to a question. */
export interface AnswerRequest extends CaseUpdateRequest {
  /** Who may use the uploads in it, where that one sees only a part. @default those of everybody */
  readonly uploader?: string;
  /** The question that is meant: where another one is open, the answer is refused. @default the one that is open */
  readonly question_id?: string;
  /** When the question that is meant was asked: a job that was started over asks with the same ids. @default any time */
  readonly asked_at?: string;
  /** Under the same key, one request answers, and only once; another one is refused with 409. */
  readonly once?: GivenKey;
}

export interface DeletionOptions {
  /** Whether nothing is kept; deletes also what is deleted already. @default false */
  readonly permanent?: boolean | undefined;
}

/** What a deletion has done. */
export interface Deletion {
  /** Number of the job's cases. */
  readonly cases: number;
  /** Until when it can be restored, ISO 8601; `null` where it cannot. */
  readonly restorableUntil: string | "indefinitely" | null;
}

/** A call of `chat`, `job_status` or a custom method. */
export interface MethodCall {
  readonly method: "job_status" | "chat" | "custom";
  /** Name of a custom method. */
  readonly name?: string;
  readonly jobId?: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly fields?: Readonly<Record<string, unknown>>;
}

/** A service whose agents start no new jobs. */
export interface Drained {
  /** Until when, ISO 8601; `null` where they do. */
  readonly until: string | null;
  /** Jobs that run now, at all instances. Those that wait for an answer, a time or an event are not among them. */
  readonly running: number;
}

/** An event for jobs that wait for one. */
export interface SentEvent {
  /** Unique among the events of its name. @default a new one */
  readonly id?: string | undefined;
  readonly data: Readonly<Record<string, unknown>>;
}

/** A message to a thread. */
export interface SentMessage {
  readonly content: string;
  /** As a field for files takes them. */
  readonly files?: readonly unknown[];
  /** Who may use the uploads among them; `null` for everybody's. */
  readonly uploader?: string | null;
  /** Jobs whose files it may name as they are, besides its own. */
  readonly filesOf?: readonly string[];
  /** Unique among the messages of its thread. */
  readonly id: string;
  /** The message is added once under this key, which is its id. */
  readonly once?: GivenKey;
}

/** Position of a queued job; 1 is next. */
export interface QueuePosition {
  readonly position: number;
  readonly queued: number;
}

/** Starts the jobs of schedules. Another id than one of theirs is `not_found`. */
export interface Schedules {
  /** Begins with what is due; called once. While the store cannot write, or the service is paused, that waits. */
  start(): Promise<void>;
  list(): Promise<Schedule[]>;
  show(id: string): Promise<Schedule>;
  /** Starts a job of a schedule now, whatever is planned. The same request again, by its key, gives the same job. */
  run(id: string, by?: Actor, idempotencyKey?: string): Promise<StoredJob>;
  /** What is planned until it is resumed becomes nothing. */
  pause(id: string, by?: Actor): Promise<Schedule>;
  resume(id: string, by?: Actor): Promise<Schedule>;
  /** Starts no more jobs. */
  close(): void;
}

/**
 * Runs jobs: starts, steers and ends them. The machine routes, the admin interface and the command line
 * go through it. `by` names who asked, for the timeline and the audit log; under the key `once`, a request does what it
 * asks for only once. Failures are `ServiceError`s.
 */
export interface Runner {
  readonly schedules: Schedules;
  /**
   * Stores the job and queues it. The same request again gives the same job; other content under the same id is
   * `job_already_exists`; bad fields are `invalid_parameters`; a full queue is `rate_limited` with `Retry-After`.
   */
  start(slug: string, request: StartRequest): Promise<StoredJob>;
  /** The job once it has ended, or its current state after this many milliseconds. */
  ended(jobId: string, milliseconds: number): Promise<StoredJob>;
  /** Asks a job to stop; `cancelling` until the run has ended, then `cancelled`. A job that has ended stays as it is. */
  stop(jobId: string, by?: Actor): Promise<StoredJob>;
  /** The slugs of the agents that are paused, as this instance knows them. */
  readonly pausedAgents: readonly string[];
  /** From now on an agent starts no new jobs: they wait in line, and what has started continues. */
  pauseAgent(slug: string, by: Actor): Promise<void>;
  resumeAgent(slug: string, by: Actor): Promise<void>;
  /** Until when no agent starts new jobs, ISO 8601, as this instance knows it. */
  readonly drainedUntil: string | undefined;
  /** Lets no agent start new jobs for so many milliseconds, at all instances; 0 ends that. The last call counts. */
  drain(milliseconds: number, by: Actor): Promise<Drained>;
  /** Gives the open question of a case to a person or role; `null` to nobody. Anyone may still answer it. */
  assign(caseId: string, to: string | null, by?: Actor): Promise<StoredCase>;
  /**
   * Answers the open question of a job's case, named by id or ref. One that needs several people stays open until so many
   * have given the same answer.
   */
  answer(jobId: string, caseId: string, request: AnswerRequest, by?: Actor): Promise<StoredCase>;
  /**
   * Stores an event for the jobs that wait for one like it, now or later. The same event again, by its id, changes
   * nothing; other data under the same id is `invalid_request` with status 409.
   */
  receive(name: string, event: SentEvent): Promise<StoredEvent>;
  /**
   * Adds a message to a thread. The same message again, by its id, changes nothing, also where the thread has ended; another
   * one under the same id is refused with 409.
   */
  say(jobId: string, message: SentMessage): Promise<void>;
  /** Resumes a job that a limit ended, with raised limits. */
  resume(
    jobId: string,
    instructions: Partial<JobInstructions> | undefined,
    by?: Actor,
    once?: GivenKey,
  ): Promise<StoredJob>;
  /** Runs a failed or cancelled job again: from its last good step, or from the start with nothing recorded. */
  retry(jobId: string, from: "last_step" | "start", by?: Actor, once?: GivenKey): Promise<StoredJob>;
  /** Resumes a held job with the current code: recorded calls that it does not make are skipped. */
  continue(jobId: string, by?: Actor, once?: GivenKey): Promise<StoredJob>;
  /** Gives an open job another version of its agent; refuses where its record does not fit that. */
  move(jobId: string, version: string, by?: Actor, once?: GivenKey): Promise<StoredJob>;
  /** The recorded calls of a job that count. */
  calls(jobId: string): Promise<NamedCall[]>;
  /** All that is recorded of a job, with known secrets masked and without its parameters. */
  export(jobId: string, by?: Actor): Promise<AsyncGenerator<ExportLine, void>>;
  /**
   * Starts a new job with what another one has recorded before a call, and changed fields. The other job stays as it is,
   * whatever its status. The same request again gives the same job.
   */
  fork(jobId: string, request: ForkRequest, by?: Actor): Promise<StoredJob>;
  /** An operator's override: sets any status from any status, see `JOB_OVERRIDES`; it is authoritative. */
  override(jobId: string, status: EntityStatus, by: Actor, once?: GivenKey): Promise<StoredJob>;
  /** The same for a case, see `CASE_OVERRIDES`. */
  overrideCase(caseId: string, status: EntityStatus, by: Actor, once?: GivenKey): Promise<StoredCase>;
  /** Ends a job and deletes it with its cases: it can be restored for some time, unless that is 0 or it is permanent. */
  remove(jobId: string, by: Actor, options?: DeletionOptions): Promise<Deletion>;
  /** Restores a deleted job as it was; `job_not_found` where there is none. */
  restore(jobId: string, by: Actor): Promise<StoredJob>;
  /** Deletes a case, cancelled where it was open; its job continues. It can be restored as a job can. */
  removeCase(
    caseId: string,
    by: Actor,
    options?: DeletionOptions,
  ): Promise<Pick<Deletion, "restorableUntil">>;
  /** Restores a case that was deleted alone; `case_not_found` where there is none. */
  restoreCase(caseId: string, by: Actor): Promise<StoredCase>;
  /** Calls a method beside the run; its answer as it is for `chat`, a JobResponse for the others. */
  call(slug: string, call: MethodCall): Promise<unknown>;
  /** The newest JobResponse of a job. */
  describe(job: StoredJob): JobResponse;
  /** Checks field values against a method: empty when they are valid. `uploader` is as in a start. */
  checkFields(
    slug: string,
    method: string,
    fields: Readonly<Record<string, unknown>>,
    uploader?: string | null,
  ): Promise<Record<string, string>>;
  /** The job's place in the queue, where it waits; where several instances share the store, in that of all of them. */
  position(jobId: string): MaybePromise<QueuePosition | undefined>;
  /** The steps whose functions run now, as the run log would tell their beginning: it does not. */
  runningSteps(jobId: string): BegunEntry[];
  /** Id of this instance, where several share the store: the `owner` of the jobs that it runs. */
  readonly instance: string | undefined;
  /** Whether this instance has run its probe job: until then it is not ready. Only where several share the store. */
  readonly probe: "pending" | "done" | undefined;
  /** Jobs that run and wait now. */
  load(): { readonly running: number; readonly queued: number };
  /** Whether the service was started paused: it takes jobs in, and runs no code of agents. */
  readonly isPaused: boolean;
  /** Ends the pause: jobs run. */
  unpause(): void;
  /**
   * Resumes unfinished jobs; called once when the service starts, with the last sign of life of the one
   * before.
   */
  reconcile(aliveUntil?: string): Promise<void>;
  /** Refuses new work, lets running steps end within the grace time (seconds), leaves their jobs to the next start. */
  close(grace: number): Promise<void>;
}

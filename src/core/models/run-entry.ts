import type { Case } from "./case.ts";
import type { EntityStatus } from "./entity-status.ts";
import type { Job, StopReason } from "./job.ts";
import { messageEvent } from "./message-event.ts";
import type { ModelFacts, StepKind } from "./model-use.ts";

/** Fields that every entry of a job's run log has. */
export interface EntryBase {
  /** When it was stored, ISO 8601. */
  at: string;
  /** The case it belongs to; absent for the job itself. */
  case_id?: string;
}

/** Which call of the handler an entry belongs to. */
export interface CallEntryBase extends EntryBase {
  /**
   * A unique number among the calls of its scope (the job, or one case); opened cases are counted separately, and so are
   * reads, from -1 down.
   */
  position: number;
  name: string;
  /** The handler's own key for the call, used instead of `name` to look the call up. */
  key?: string;
  /** Which of the calls of this scope, kind, and name or key it is, from 0; absent in the logs of version 0.1.0. */
  n?: number;
  /** The line of the log up to which the handler had received results when it made this call. */
  made?: number;
  /**
   * How many calls of the same scope, kind, and name or key it had made in the same turn before; 0 is not
   * written.
   */
  also?: number;
  /** Whether it made the call outside of any turn: after waiting for something that is not recorded. */
  outside?: true;
}

/** What a step says of its work. */
export interface WorkEntry {
  kind?: StepKind;
  /** Of a call of a model: also of an attempt that failed, as far as it is known. */
  model?: ModelFacts;
}

/** What an attempt of a step has emitted. Only for readers of streams: replay does not use it. */
export interface EmittedEntry {
  emitted?: {
    /** In which of the job's runs, from 1. */
    run: number;
    /** Masked, with texts in a row as one; absent where that is the step's result. */
    chunks?: readonly unknown[];
  };
}

/** A recorded call that replay uses: its identity and its result. */
export interface CallEntry extends CallEntryBase, WorkEntry, EmittedEntry {
  type: "call";
  call:
    | "step"
    | "open_case"
    | "update"
    | "ask"
    | "close"
    | "sleep"
    | "start"
    | "child"
    | "stop"
    | "event"
    | "read"
    | "tag";
  /**
   * Its result. In logs of version 0.1.0, a sleep was recorded when it started, and this is when it was to
   * end.
   */
  result?: unknown;
  /**
   * Whether its result was too large for the record: `result` is then the file that has it as JSON, in the same place as
   * other files of the job.
   */
  by_reference?: true;
  /** Final error: of a step that has no attempts left, of a child that did not complete. */
  error?: {
    name: string;
    message: string;
    stack?: string;
    /** Of a child that did not complete: its status, and why. */
    status?: EntityStatus;
    reason?: StopReason;
  };
  /** What the step was given, such as a model's request. Only for people: replay does not use it. */
  input?: unknown;
  /** The stored event that it was given. */
  event?: string;
  attempts?: number;
  cost?: number;
  started_at?: string;
  /** The limit that is reached by it: that ends the job, also where the process ends before the job does. */
  ends?: { reason: StopReason; message: string };
}

/** An error as it is recorded. */
export type RecordedError = NonNullable<CallEntry["error"]>;

/** A failed attempt of a step that will be retried. */
export interface AttemptEntry extends CallEntryBase, WorkEntry, EmittedEntry {
  type: "attempt";
  /** What was attempted, if not a step: the agent's `human_answer`. */
  call?: "ask";
  attempt: number;
  error: string;
  /** When the next attempt starts, ISO 8601. */
  next_at?: string;
  cost?: number;
  started_at?: string;
}

/** A call that was started and is not finished: a question, a sleep, another attempt of a step. */
export interface BegunEntry extends CallEntryBase {
  type: "begun";
  call: CallEntry["call"];
  attempt: number;
  /** When a sleep, or the wait for an event, is to end, ISO 8601. */
  until?: string;
  /** Events that were stored since this time count, ISO 8601. */
  since?: string;
  /**
   * Whether the agent is notified of the answer before the handler continues: only then is the question
   * settled.
   */
  tells?: true;
}

/** A change of status; `by` is set if an operator made it. */
export interface StatusEntry extends EntryBase {
  type: "status";
  from: EntityStatus | null;
  to: EntityStatus;
  by?: string;
  reason?: string;
  /** Where a run begins: the agent's version and the fingerprint of its code. */
  version?: string;
  code?: string;
  /** Whether the run records what the handler reads; runs of earlier versions did not. */
  reads?: true;
}

/** The answer to a question. */
export interface AnswerEntry extends EntryBase {
  type: "answer";
  case_id: string;
  question_id: string;
  answer: Record<string, unknown>;
  message?: string | null;
  by?: string;
}

/** An event of the run itself: started, interrupted by the end of the process, resumed. */
export interface MarkEntry extends EntryBase {
  type: "mark";
  mark:
    | "created"
    | "started"
    | "interrupted"
    | "resumed"
    | "restarted"
    | "retried"
    | "limits_raised"
    | "waiting_for_agent"
    | "held"
    | "continued"
    | "moved"
    | "changed"
    | "read"
    | "forked"
    | "note";
  message?: string;
  /** When work stopped at the end of the process: the last sign of life, ISO 8601. */
  since?: string;
  /** What the job was doing when the process crashed; absent if the process was asked to end, or the job was only waiting. */
  doing?: string;
  /** Which of the job's runs crashed, from 1: each is reported once. Where several instances share the store, which one ended. */
  run?: number;
  /** Whether it may have ended its instance: until it makes progress, what it does is stored with the job first. */
  watched?: true;
  /** With how many others it is resumed that were under way at several ends of instances, as it was. */
  beside?: number;
  by?: string;
  /** Where a run begins: the agent's version and the fingerprint of its code. */
  version?: string;
  code?: string;
  reads?: true;
  /** Lines of calls that no longer count, first and last of each range: a person let the job continue without them. */
  cut?: readonly (readonly [first: number, last: number])[];
  /** What `job.changed` was asked for, and what it answered. */
  name?: string;
  is?: boolean;
  /** Of a read that may have been in a step's function: the line up to which the handler had received results. */
  made?: number;
}

/** One line of a job's run log: the source of replay, the timeline and the live stream. */
export type RunEntry = CallEntry | AttemptEntry | BegunEntry | StatusEntry | AnswerEntry | MarkEntry;

/** The entry of job `from` as one of job `jobId`: with the ids of that one's cases, and its own messages. */
export function withIds(
  given: RunEntry,
  {
    from,
    jobId,
    idOf,
  }: { readonly from: string; readonly jobId: string; readonly idOf: (id: string) => string },
): RunEntry {
  const entry = withOwnMessages(given, from, jobId);
  const isRead = entry.type === "call" && entry.call === "read" && entry.error === undefined;
  const shown = isRead ? { ...entry, result: readWithIds(entry, jobId, idOf) } : entry;
  if (shown.case_id === undefined) return shown;
  const case_id = idOf(shown.case_id);
  if (shown.type !== "call" || shown.call !== "open_case") return { ...shown, case_id } as RunEntry;
  return { ...shown, case_id, result: idOf(String(shown.result)) };
}

/** Messages of a thread are events whose name has the thread's id: its copy waits for its own. */
function withOwnMessages(entry: RunEntry, from: string, jobId: string): RunEntry {
  if (from === jobId || (entry.type !== "call" && entry.type !== "begun")) return entry;
  if (entry.call !== "event" || entry.name !== messageEvent(from)) return entry;
  const name = messageEvent(jobId);
  if (entry.type === "begun" || entry.error) return { ...entry, name };
  return { ...entry, name, result: { ...(entry.result as object), name } };
}

/** The job, or the case, as a copy of it would have been read. */
function readWithIds({ case_id, result }: CallEntry, jobId: string, idOf: (id: string) => string): unknown {
  if (case_id !== undefined) return { ...(result as Case), id: idOf(case_id), job_id: jobId };
  const job = result as Job;
  const job_context = { ...job.job_context, job_id: jobId };
  return { ...job, id: jobId, job_context, case_ids: job.case_ids.map(idOf) };
}

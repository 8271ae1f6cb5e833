import type { EntityStatus } from "./entity-status.ts";

/** Fields that every entry of a job's run log has. */
interface EntryBase {
  /** When it was stored, ISO 8601. */
  at: string;
  /** The case it belongs to; absent for the job itself. */
  case_id?: string;
}

/** A recorded call that replay answers from: its place in its scope, what it was and what it gave. */
export interface CallEntry extends EntryBase {
  type: "call";
  /** Position among the calls of its scope (the job, or one case), from 0; opened cases have a count of their own. */
  position: number;
  call: "step" | "open_case" | "update" | "ask" | "close" | "sleep";
  name: string;
  result?: unknown;
  /** Final error of a step that failed for good. */
  error?: { name: string; message: string; stack?: string };
  attempts?: number;
  cost?: number;
  started_at?: string;
}

/** A failed attempt of a step that will be tried again. */
export interface AttemptEntry extends EntryBase {
  type: "attempt";
  position: number;
  name: string;
  attempt: number;
  error: string;
  cost?: number;
  started_at?: string;
}

/** A call that was begun and takes its time, such as a question. */
export interface BegunEntry extends EntryBase {
  type: "begun";
  position: number;
  call: CallEntry["call"];
  name: string;
  attempt: number;
}

/** A change of status; `by` tells an operator from the run. */
export interface StatusEntry extends EntryBase {
  type: "status";
  from: EntityStatus | null;
  to: EntityStatus;
  by?: string;
  reason?: string;
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

/** Something about the run itself: begun, interrupted by the end of the process, taken up again. */
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
    | "note";
  message?: string;
  by?: string;
}

/** One line of a job's run log: what replay, the timeline and the live stream are made from. */
export type RunEntry = CallEntry | AttemptEntry | BegunEntry | StatusEntry | AnswerEntry | MarkEntry;

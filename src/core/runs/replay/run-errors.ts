import { messageOf, readable, toText } from "../../base/error-text.ts";
import type { EntityStatus } from "../../models/entity-status.ts";
import type { Held, StopReason } from "../../models/job.ts";
import type { OnTimeout } from "../../models/question.ts";
import type { RecordedError } from "../../models/run-entry.ts";

/** How a run ends other than by its handler. */
export interface RunEnd {
  readonly to: "failed" | "cancelled";
  readonly reason: StopReason;
  readonly message: string;
  /** Set where the job does not end: it is held until it fits the code again, or a person decides. */
  readonly held?: Omit<Held, "at" | "message">;
}

/** Why a run ends whose job another one has by now, also one of another process. */
export const SUPERSEDED: RunEnd = {
  to: "cancelled",
  reason: "interrupted",
  message: "The run has ended: the job was taken from it",
};

/** What calls of a job or case reject with once its run ends: a limit, a stop, an operator. */
export class RunEndedError extends Error {
  override readonly name = "RunEndedError";
  readonly reason: StopReason;
  constructor({ reason, message }: RunEnd) {
    super(message);
    this.reason = reason;
  }
}

/** A step that failed at its last attempt; `cause` is the failure. */
export class StepFailedError extends Error {
  override readonly name = "StepFailedError";
  readonly step: string;
  readonly attempts: number;
  constructor(step: string, attempts: number, cause: unknown) {
    super(messageOf(cause), { cause });
    this.step = step;
    this.attempts = attempts;
  }
}

/** Nobody answered before the deadline. */
export class QuestionExpiredError extends Error {
  override readonly name = "QuestionExpiredError";
  readonly onTimeout: OnTimeout;
  constructor(message: string, onTimeout: OnTimeout) {
    super(message);
    this.onTimeout = onTimeout;
  }
}

/** No event that fits was received before the deadline of `job.waitFor`. */
export class EventTimeoutError extends Error {
  override readonly name = "EventTimeoutError";
  /** The event's name. */
  readonly event: string;
  constructor(message: string, event: string) {
    super(message);
    this.event = event;
  }
}

/** A child that did not complete, or that could not be started. */
export class ChildFailedError extends Error {
  override readonly name = "ChildFailedError";
  /** The child's job id; `null` if it could not be started. */
  readonly child: string | null;
  /** How it ended; `null` if it could not be started, or was removed before its result was read. */
  readonly status: EntityStatus | null;
  /** Why, as far as the child says. */
  readonly reason: StopReason | null;
  constructor(
    message: string,
    child: string | null = null,
    { status, reason }: { readonly status?: EntityStatus; readonly reason?: StopReason } = {},
  ) {
    super(message);
    this.child = child;
    this.status = status ?? null;
    this.reason = reason ?? null;
  }
}

/** The handler made other calls than those that are recorded. */
export class NondeterminismError extends Error {
  override readonly name = "NondeterminismError";
}

/** An error as it is recorded. */
export function toRecordedError(error: unknown): RecordedError {
  const message = messageOf(error);
  if (!(error instanceof Error)) return { name: "Error", message };
  const stack = readable(() => toText(error.stack ?? ""));
  return { name: readable(() => toText(error.name)), message, ...(stack !== "" && { stack }) };
}

/** A recorded error as it is thrown again. */
export function fromRecordedError({ name, message, stack }: RecordedError): Error {
  const error = new Error(message);
  error.name = name;
  if (stack !== undefined) error.stack = stack;
  return error;
}

/** The handler could not be called, as the job's parameters cannot be read: the job is held. */
export class HeldError extends Error {
  override readonly name = "HeldError";
}

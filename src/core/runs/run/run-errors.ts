import { messageOf, readable, toText } from "../../base/error-text.ts";
import type { Held, StopReason } from "../../models/job.ts";
import type { OnTimeout } from "../../models/question.ts";
import type { CallEntry } from "../../models/run-entry.ts";

/** How a run ends other than by its handler. */
export interface RunEnd {
  readonly to: "failed" | "cancelled";
  readonly reason: StopReason;
  readonly message: string;
  /** Set where the job does not end: it is held until it fits the code again, or a person decides. */
  readonly held?: Omit<Held, "at" | "message">;
}

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

/** The handler made other calls than those that are recorded. */
export class NondeterminismError extends Error {
  override readonly name = "NondeterminismError";
}

export type RecordedError = NonNullable<CallEntry["error"]>;

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

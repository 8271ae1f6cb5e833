import { causeOf, messageOf, readable, toText } from "../../base/error-text.ts";
import type { EntityStatus } from "../../models/entity-status.ts";
import type { StopReason } from "../../models/job.ts";
import type { OnTimeout } from "../../models/question.ts";
import {
  ChildFailedError,
  EventTimeoutError,
  NondeterminismError,
  QuestionExpiredError,
  RunEndedError,
  StepFailedError,
} from "../replay/run-errors.ts";

/** Causes of causes beyond which nobody looks. */
const DEEPEST = 8;

/** An error on its way between two processes. */
export interface WireError {
  readonly name: string;
  readonly message: string;
  readonly stack?: string;
  readonly cause?: WireError;
  readonly step?: string;
  readonly attempts?: number;
  readonly onTimeout?: OnTimeout;
  readonly reason?: StopReason;
  /** Of a child that failed. */
  readonly child?: string | null;
  readonly status?: EntityStatus;
  /** Of an event that was not received. */
  readonly event?: string;
  /** When a `RetryAfterError` asks for the next try: milliseconds, or a time in ISO 8601. */
  readonly after?: number | string;
}

export function toWire(error: unknown, depth = 0): WireError {
  const message = deniedOf(error) ?? messageOf(error);
  if (!(error instanceof Error)) return { name: "Error", message };
  const cause = depth < DEEPEST ? causeOf(error) : undefined;
  return {
    name: readable(() => toText(error.name)),
    message,
    stack: readable(() => toText(error.stack ?? "")),
    ...(cause !== undefined && { cause: toWire(cause, depth + 1) }),
    ...(error instanceof StepFailedError && { step: error.step, attempts: error.attempts }),
    ...(error instanceof QuestionExpiredError && { onTimeout: error.onTimeout }),
    ...afterOf(error),
    ...(error instanceof RunEndedError && { reason: error.reason }),
    ...(error instanceof EventTimeoutError && { event: error.event }),
    ...(error instanceof ChildFailedError && {
      child: error.child,
      ...(error.status && { status: error.status }),
      ...(error.reason && { reason: error.reason }),
    }),
  };
}

/** What Node refuses to an isolated agent: its own message has neither the path nor what to do. */
function deniedOf(error: unknown): string | undefined {
  const { code, permission, resource } = (error ?? {}) as Readonly<Record<string, unknown>>;
  if (code !== "ERR_ACCESS_DENIED") return undefined;
  const what = [permission, resource].filter((one) => typeof one === "string" && one !== "").join(" ");
  return `An isolated agent may not do this: ${what || messageOf(error)}. Its option isolate.permissions allows it`;
}

function afterOf(error: Error): Pick<WireError, "after"> {
  const { after } = error as { after?: unknown };
  if (after instanceof Date) return { after: after.toISOString() };
  return typeof after === "number" ? { after } : {};
}

/** The error as the other process has it: of the same class where that is one that agents may look for. */
export function fromWire(wire: WireError): Error {
  const error = revive(wire);
  if (wire.stack) error.stack = wire.stack;
  return error;
}

function revive(wire: WireError): Error {
  const { name, message } = wire;
  const cause = wire.cause && fromWire(wire.cause);
  if (wire.step !== undefined) return new StepFailedError(wire.step, wire.attempts ?? 1, cause);
  if (wire.onTimeout !== undefined) return new QuestionExpiredError(message, wire.onTimeout);
  if (wire.event !== undefined) return new EventTimeoutError(message, wire.event);
  if (wire.child !== undefined) return new ChildFailedError(message, wire.child, wire);
  if (wire.reason !== undefined) return new RunEndedError({ to: "failed", reason: wire.reason, message });
  if (name === "NondeterminismError") return new NondeterminismError(message);
  const error = name === "TypeError" ? new TypeError(message) : new Error(message);
  error.name = name;
  if (cause) error.cause = cause;
  if (wire.after !== undefined)
    Object.assign(error, { after: typeof wire.after === "number" ? wire.after : new Date(wire.after) });
  return error;
}

import type { StepReport } from "../../agents/step-report.ts";
import type { FileValue } from "../../models/file.ts";
import type { StreamMessage } from "./byte-streams.ts";
import type { SentArgument } from "./passed-calls.ts";
import type { WireError } from "./wire-error.ts";

/** The handle on which a call is made. */
export interface CallTarget {
  readonly kind: "job" | "case" | "child";
  readonly id: string;
}

/** A call of a handle; functions and schemas stay in the process. */
export type RemoteCall =
  | { readonly op: "step"; readonly name: string; readonly options: Readonly<Record<string, unknown>> }
  | {
      readonly op: "ask";
      readonly name?: string;
      readonly options: Readonly<Record<string, unknown>>;
      readonly until?: string;
      /** A name in its fields that no field knows. */
      readonly unknown?: string;
    }
  /** Any other: one of `PASSED`. */
  | { readonly op: "pass"; readonly name: string; readonly args: readonly SentArgument[] };

/** What a handler did, in order. */
export type Effect =
  | {
      readonly type: "call";
      readonly id: number;
      readonly on: CallTarget;
      /** The step in whose function the call is made. */
      readonly inside?: number | undefined;
      /** The step's function is called without a `run` message. */
      readonly isBegun?: true;
      readonly call: RemoteCall;
    }
  | {
      readonly type: "log";
      readonly level: "debug" | "info" | "warn" | "error";
      readonly args: readonly unknown[];
    }
  | { readonly type: "telemetry"; readonly data: unknown }
  /** What `job.changed` answered there: the service may know better. */
  | { readonly type: "changed"; readonly name: string; readonly is: boolean }
  | { readonly type: "ended"; readonly value?: unknown; readonly error?: WireError };

/** From the service to an agent's process. */
export type ToAgent =
  | { readonly type: "ping" }
  | {
      readonly type: "start";
      /** Which run of this process begins, from 1. */
      readonly of: number;
      readonly seq: number;
      readonly turn: number;
      readonly job: { readonly id: string; readonly context: unknown };
      readonly fields: Record<string, unknown>;
      readonly parameters: Readonly<Record<string, string>>;
      /** Recorded answers of `job.changed`, by name. */
      readonly changes: readonly (readonly [name: string, is: boolean])[];
      /** Whether the handler has made all recorded calls: there are none. */
      readonly isBehindRecord: boolean;
      readonly mayBegin: boolean;
    }
  /** A call has ended; `turn` is the turn that this begins or belongs to, if any. */
  | {
      readonly type: "settle";
      readonly seq: number;
      readonly id: number;
      readonly turn: number | undefined;
      /** Whether the handler has made all recorded calls. */
      readonly isBehindRecord: boolean;
      /** Whether steps may start immediately that the handler calls in this turn, before it makes any other call. */
      readonly mayBegin: boolean;
      readonly value?: unknown;
      /** The value is the one that the step's function has given in this process. */
      readonly isOwn?: boolean;
      readonly error?: WireError;
    }
  | { readonly type: "run"; readonly id: number; readonly attempt: number; readonly idempotencyKey: string }
  | { readonly type: "abortStep"; readonly id: number; readonly error: WireError }
  | { readonly type: "abort"; readonly error: WireError }
  /** Checks an answer by the schema of the question. */
  | {
      readonly type: "check";
      readonly ask: number;
      readonly check: number;
      readonly answer: Record<string, unknown>;
    }
  /** Calls another method than `job_start`. */
  | {
      readonly type: "method";
      readonly id: number;
      readonly name: string;
      readonly isCustom: boolean;
      readonly context: Record<string, unknown>;
    }
  | { readonly type: "abortMethod"; readonly id: number; readonly error: WireError }
  /** What became of a file that a step makes. */
  | {
      readonly type: "made";
      readonly stream: number;
      readonly file?: FileValue;
      readonly error?: WireError;
    }
  /** Headers by which other services continue the trace at a step. */
  | {
      readonly type: "traced";
      readonly ask: number;
      readonly value?: Readonly<Record<string, string>>;
      readonly error?: WireError;
    }
  | StreamMessage;

/** What a handler reports, and of which run: one that was left behind may still report something during the next one. */
export type FromHandler = { readonly of: number } & Reported;

/** From an agent's process to the service. */
export type FromAgent =
  | { readonly type: "ready"; readonly problem?: string }
  | { readonly type: "pong"; readonly rss: number }
  | { readonly type: "answer"; readonly id: number; readonly value?: unknown; readonly error?: WireError }
  | FromHandler;

export type Reported =
  /** What the handler did after `did`; without it, after waiting for something of its own. */
  | {
      readonly type: "effects";
      readonly did?: number;
      /** The last settled call that it knew of, and the last turn that this follows from. */
      readonly seen?: number;
      readonly cause?: number;
      readonly effects: readonly Effect[];
    }
  | {
      readonly type: "ran";
      readonly id: number;
      /** As in the `run` message; absent where the step started without a `run` message. */
      readonly attempt?: number | undefined;
      readonly value?: unknown;
      readonly error?: WireError;
      /** The result is nothing that JSON can keep. */
      readonly isUnrecordable?: boolean;
      /** What `retryIf` answered. */
      readonly mayRetry?: boolean;
      /** What the try has reported. */
      readonly report?: StepReport;
    }
  /** An attempt of a step makes a file: its content is read under this number. */
  | {
      readonly type: "makeFile";
      readonly id: number;
      readonly attempt: number;
      /** Name of the step. */
      readonly step: string;
      readonly stream: number;
      readonly name: string;
      readonly mediaType?: string | undefined;
    }
  /** The handler opens a file: its content is offered under this number. */
  | { readonly type: "openFile"; readonly stream: number; readonly file: FileValue }
  | StreamMessage
  /** A step wants the headers by which other services continue its trace. */
  | { readonly type: "trace"; readonly id: number; readonly ask: number }
  /** What an attempt of a step has emitted. */
  | { readonly type: "emitted"; readonly id: number; readonly attempt: number; readonly chunk: unknown }
  | {
      readonly type: "checked";
      readonly check: number;
      readonly verdict?: unknown;
      readonly error?: WireError;
    };

import { createHash, randomBytes } from "node:crypto";

/** The position of a span in a trace: W3C Trace Context (https://www.w3.org/TR/trace-context/). */
export interface SpanPlace {
  readonly traceId: string;
  readonly spanId: string;
  /** Whether it is exported; its children may follow this. */
  readonly sampled: boolean;
}

const ZERO = /^0+$/;
/** The only flag of version 00 that is kept. */
const SAMPLED = 0b1;

/** Reads a `traceparent` header; `undefined` if it is invalid. */
export function readTraceparent(header: string | null | undefined): SpanPlace | undefined {
  const match = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/.exec(
    header?.trim() ?? "",
  );
  const [, traceId, spanId, flags = ""] = match ?? [];
  if (!traceId || !spanId || ZERO.test(traceId) || ZERO.test(spanId)) return undefined;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & SAMPLED) !== 0 };
}

export function toTraceparent({ traceId, spanId, sampled }: SpanPlace): string {
  return `00-${traceId}-${spanId}-${sampled ? "01" : "00"}`;
}

export function newSpanId(): string {
  return randomBytes(8).toString("hex");
}

export function newTraceId(): string {
  return randomBytes(16).toString("hex");
}

/**
 * A span id that another process derives identically: a run continues after a restart, and so does its trace.
 */
export function spanIdOf(...parts: readonly (string | number)[]): string {
  return hash("span", parts).slice(0, 16);
}

/** The trace of a job that was started without one. */
export function traceIdOf(jobId: string): string {
  return hash("trace", [jobId]).slice(0, 32);
}

function hash(kind: string, parts: readonly (string | number)[]): string {
  return createHash("sha256")
    .update(JSON.stringify([kind, ...parts]))
    .digest("hex");
}

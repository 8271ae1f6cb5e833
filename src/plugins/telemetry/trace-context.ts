import { createHash, randomBytes } from "node:crypto";

/** The position of a span in a trace: W3C Trace Context (https://www.w3.org/TR/trace-context/). */
export interface SpanPlace {
  readonly traceId: string;
  readonly spanId: string;
  /** Whether it is exported; its children may follow this. */
  readonly sampled: boolean;
  /** What systems of tracing add to it (`tracestate`): passed on as it came. */
  readonly state?: string | undefined;
}

const ZERO = /^0+$/;
/** The only flag of version 00 that is kept. */
const SAMPLED = 0b1;

/** Reads the headers `traceparent` and `tracestate`; `undefined` if the first is invalid. */
export function readTraceContext(headers: Pick<Headers, "get">): SpanPlace | undefined {
  const place = readTraceparent(headers.get("traceparent"));
  const state = place && readTracestate(headers.get("tracestate"));
  return place && { ...place, ...(state !== undefined && { state }) };
}

/** The same place as headers. */
export function toTraceHeaders(place: SpanPlace): Readonly<Record<string, string>> {
  const { state } = place;
  return { traceparent: toTraceparent(place), ...(state !== undefined && { tracestate: state }) };
}

/** Members of a list: 32 at most, of keys in lower case and visible characters (section 3.3 of the recommendation). */
const MEMBER =
  /^[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;
const MOST_MEMBERS = 32;
/** Characters that must be passed on; a longer one is not. */
const LONGEST_STATE = 512;

/** Reads a `tracestate` header; `undefined` if it is empty, invalid or too long. */
function readTracestate(header: string | null): string | undefined {
  const members = (header ?? "")
    .split(",")
    .map((one) => one.trim())
    .filter((one) => one !== "");
  const state = members.join(",");
  const isValid = members.length <= MOST_MEMBERS && members.every((one) => MEMBER.test(one));
  return isValid && state !== "" && state.length <= LONGEST_STATE ? state : undefined;
}

function readTraceparent(header: string | null): SpanPlace | undefined {
  const match = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/.exec(
    header?.trim() ?? "",
  );
  const [, traceId, spanId, flags = ""] = match ?? [];
  if (!traceId || !spanId || ZERO.test(traceId) || ZERO.test(spanId)) return undefined;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & SAMPLED) !== 0 };
}

function toTraceparent({ traceId, spanId, sampled }: SpanPlace): string {
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

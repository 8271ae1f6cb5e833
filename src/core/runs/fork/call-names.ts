import { ServiceError } from "../../base/errors.ts";
import type { Call } from "../replay/call.ts";
import type { RunRecord } from "../replay/run-record.ts";

/** Names the beginning of a job, before its first call. */
export const START = "start";
/** Names the end of a record, after its last call. */
export const END = "end";
/** Most candidates that an error lists. */
const MOST_LISTED = 20;

/** A recorded call, as people name it. */
export interface NamedCall {
  /**
   * `step:fetch`, in a case `case/step:fetch`, with `#2` for the second of several of its kind and name there. The case
   * is the id that the agent gave it.
   */
  readonly name: string;
  /** Line of the log that ended it; `null` while it has not ended. */
  readonly line: number | null;
}

/** All recorded calls of a job that count, in the order of the log; those that have not ended come last. */
export function listCalls(record: RunRecord): NamedCall[] {
  const refs = refsOf(record);
  return callsOf(record).map((call) => ({ name: nameOfCall(call, refs), line: call.line || null }));
}

/**
 * The recorded call that a text names: `fetch`, `step:fetch`, `case/fetch`, `fetch#2`, `@12` for the call that line 12
 * ended; or `start` or `end`. Throws `invalid_parameters` unless it names exactly one.
 */
export function findCall(record: RunRecord, text: string): Call | typeof START | typeof END {
  if (text === START || text === END) return text;
  const refs = refsOf(record);
  const calls = callsOf(record);
  const exact = calls.filter((call) => nameOfCall(call, refs) === text || `@${call.line}` === text);
  const found = exact.length > 0 ? exact : calls.filter((call) => formsOf(call, refs).includes(text));
  if (found.length === 1) return found[0]!;
  const isUnknown = found.length === 0;
  const candidates = (isUnknown ? calls : found).map(
    (call) => nameOfCall(call, refs) + (call.line > 0 ? ` (@${call.line})` : ""),
  );
  const listed = candidates.slice(0, MOST_LISTED).join(", ");
  const more = candidates.length > MOST_LISTED ? ` and ${candidates.length - MOST_LISTED} more` : "";
  throw new ServiceError(
    "invalid_parameters",
    isUnknown
      ? `No recorded call is named "${text}"`
      : `${found.length} recorded calls are named "${text}": name one of them`,
    { detail: `Calls: ${[START, listed].filter(Boolean).join(", ")}${more}, ${END}.` },
  );
}

function callsOf(record: RunRecord): Call[] {
  return [...record.ended.toSorted((a, b) => a.line - b.line), ...record.begun()];
}

/** The ids that the agent gave its cases, by the ids that they have. */
function refsOf({ cases }: RunRecord): ReadonlyMap<string, string> {
  return new Map([...cases].map(([ref, id]) => [id, ref]));
}

function nameOfCall(call: Call, refs: ReadonlyMap<string, string>): string {
  const { caseId, kind, name, key, n, same } = call;
  const scope = caseId === undefined ? "" : `${refs.get(caseId) ?? caseId}/`;
  const isOneOfSeveral = n > 0 || (n === 0 && same?.at(1) !== undefined);
  return `${scope}${kind}:${key ?? name}${isOneOfSeveral ? `#${n + 1}` : ""}`;
}

/** Shorter names, which may not be unique. */
function formsOf(call: Call, refs: ReadonlyMap<string, string>): string[] {
  const { caseId, kind, name, key, n } = call;
  const ref = caseId === undefined ? undefined : refs.get(caseId);
  const scopes = [
    "",
    ...(caseId === undefined ? [] : [`${caseId}/`]),
    ...(ref === undefined ? [] : [`${ref}/`]),
  ];
  const names = [...new Set([key ?? name, name])].flatMap((one) => [one, `${kind}:${one}`]);
  // A name without a number fits each call of that name.
  const numbers = ["", `#${n + 1}`];
  return [
    call.label,
    ...scopes.flatMap((scope) => names.flatMap((one) => numbers.map((number) => scope + one + number))),
  ];
}

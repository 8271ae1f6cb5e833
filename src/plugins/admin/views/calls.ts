import { isTerminal } from "../../../core/models/entity-status.ts";
import { messageEvent } from "../../../core/models/message-event.ts";
import type {
  AnswerEntry,
  AttemptEntry,
  BegunEntry,
  CallEntry,
  RunEntry,
} from "../../../core/models/run-entry.ts";
import { AttemptCounter, keyOf, type LastAttempts } from "./attempts.ts";

/** A call of a job with its attempts, finished or not. */
export interface Call {
  /** Names it in addresses: `7` is call 7 of the job, `7.c-1` of case `c-1`, `7~2` the second one at its position. */
  readonly id: string;
  readonly case_id?: string;
  readonly call: CallEntry["call"];
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly begun: number;
  readonly entry?: CallEntry;
  /** When it ended, if no entry says so. */
  readonly end?: number;
  /** When its run ended without it. */
  readonly cut?: number;
  readonly tries: readonly AttemptEntry[];
  /** How many were made in its run. */
  readonly attempts: number;
  /** The answer to a question, once a person gave it. */
  readonly answer?: AnswerEntry;
}

/** What a call is called on pages: the event that brings a message into a chat has the name of its job. */
export function calledOn({ call, name }: Pick<Call, "call" | "name">, jobId: string): string {
  return call === "event" && name === messageEvent(jobId) ? "Message" : name;
}

/** Whether the end of its run cut an attempt short, which therefore has not failed. */
export function isCutShort({ entry, cut }: Pick<Call, "entry" | "cut">, { at }: AttemptEntry): boolean {
  return entry === undefined && cut !== undefined && time(at) >= cut;
}

/** What all attempts of a call have cost. */
export function spentOn({ entry, tries }: Pick<Call, "entry" | "tries">): number {
  return tries.reduce((sum, { cost = 0 }) => sum + cost, entry?.cost ?? 0);
}

type Open = Omit<Call, "id">;
type Position = Pick<CallEntry | AttemptEntry | BegunEntry, "case_id" | "position">;

const COLLECTED = new WeakMap<readonly RunEntry[], readonly Call[]>();

/**
 * The calls of a run log, in the order in which they started. What a page shows is made from one list several times.
 * `before`: the last attempts of the runs before the first entry.
 */
export function collectCalls(entries: readonly RunEntry[], before?: LastAttempts): readonly Call[] {
  const known = COLLECTED.get(entries);
  if (known) return known;
  const calls = collect(entries, before);
  COLLECTED.set(entries, calls);
  return calls;
}

function collect(entries: readonly RunEntry[], before?: LastAttempts): Call[] {
  const counter = new AttemptCounter(before);
  const open = new Map<string, Open>();
  const done: (Open & Position)[] = [];
  const settled = new Map<string, Open & Position>();
  let endedAt: number | undefined;
  for (const entry of entries) {
    const attempts = counter.add(entry);
    if (entry.type === "status") endedAt = isTerminal(entry.to) ? time(entry.at) : undefined;
    if (entry.type === "answer") {
      settle(open, { done, settled }, entry);
      continue;
    }
    if (entry.type !== "begun" && entry.type !== "attempt" && entry.type !== "call") continue;
    // It takes no time, and changes nothing.
    if (entry.call === "read") continue;
    const key = keyOf(entry);
    const answered = settled.get(key);
    if (answered && entry.type !== "begun") {
      if (entry.type === "call") Object.assign(answered, { entry });
      continue;
    }
    // The question of a job that started over.
    settled.delete(key);
    const known = open.get(key);
    const begun = known?.begun ?? time((entry.type === "begun" ? undefined : entry.started_at) ?? entry.at);
    const { name, case_id } = entry;
    const of = case_id === undefined ? undefined : { case_id };
    const tries = known?.tries ?? [];
    if (entry.type === "begun") open.set(key, { name, begun, tries, call: entry.call, attempts, ...of });
    else if (entry.type === "attempt") {
      const call = known?.call ?? "step";
      open.set(key, { name, begun, tries: [...tries, entry], call, attempts, ...of });
    } else {
      open.delete(key);
      done.push({
        name,
        tries,
        position: entry.position,
        call: entry.call,
        begun: Math.min(begun, entry.started_at ? time(entry.started_at) : begun),
        entry,
        attempts: entry.attempts === undefined ? (known?.attempts ?? 1) : attempts,
        ...of,
      });
    }
  }
  const cutAt = ({ begun }: Open) => endedAt !== undefined && { cut: Math.max(begun, endedAt) };
  const under = [...open].map(([key, call]) => ({ ...call, position: positionIn(key), ...cutAt(call) }));
  return withIds([...done, ...under]).sort((a, b) => a.begun - b.begun);
}

/** An answer ends the open question of its case, whether or not the run has processed it yet. */
function settle(
  open: Map<string, Open>,
  { done, settled }: { done: (Open & Position)[]; settled: Map<string, Open & Position> },
  answer: AnswerEntry,
): void {
  for (const [key, call] of open) {
    if (call.call !== "ask" || call.case_id !== answer.case_id) continue;
    open.delete(key);
    const one = { ...call, position: positionIn(key), end: time(answer.at), answer };
    // What the run records later is known.
    settled.set(key, one);
    done.push(one);
  }
}

/** A job that started over has several calls at a position; opened cases are counted separately. */
function withIds(calls: readonly (Open & Position)[]): Call[] {
  const seen = new Map<string, number>();
  return calls.map(({ position, ...call }) => {
    if (call.call === "open_case") return { ...call, id: "" };
    const key = keyOf({ position, case_id: call.case_id });
    const n = (seen.get(key) ?? 0) + 1;
    seen.set(key, n);
    const place = n === 1 ? String(position) : `${position}~${n}`;
    return { ...call, id: call.case_id === undefined ? place : `${place}.${call.case_id}` };
  });
}

function positionIn(key: string): number {
  return Number(key.slice(0, key.indexOf("\n")));
}

function time(timestamp: string): number {
  return Date.parse(timestamp);
}

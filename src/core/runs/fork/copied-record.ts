import type { CallEntry, MarkEntry, RunEntry, StatusEntry } from "../../models/run-entry.ts";
import type { Call } from "../replay/call.ts";
import { RunRecord } from "../replay/run-record.ts";
import { END, START } from "./call-names.ts";

/** Marks that replay needs; others describe runs of the original. */
const NEEDED: ReadonlySet<MarkEntry["mark"]> = new Set([
  "retried",
  "limits_raised",
  "continued",
  "changed",
  "read",
]);

/** The beginning of a job's record, for another job. */
export interface CopiedRecord {
  /** Line of the original's log up to which it was copied. */
  readonly upTo: number;
  /** Lines for the log of the other job, numbered from its second line on; cases have their ids in the original. */
  readonly entries: readonly RunEntry[];
  /** The cases that were opened in it, in this order. */
  readonly cases: readonly CopiedCase[];
}

/** What the beginning of a record contains of a case. */
export interface CopiedCase {
  readonly id: string;
  /** How a recorded call has ended it; `undefined` if it is open. */
  readonly end: CallEntry | undefined;
  /** The lines of the original's log that belong to it, up to the cut. */
  readonly lines: readonly CaseLine[];
}

/** A line of a case in the original's log. */
export interface CaseLine {
  readonly entry: RunEntry;
  readonly isCopied: boolean;
}

/**
 * The part of a record before a call, which the other job makes again; nothing at its start, all at its end. Of the call
 * itself and of questions that nobody had answered by then nothing is copied: they are asked again.
 */
export function copyRecord(
  entries: readonly RunEntry[],
  find: (record: RunRecord) => Call | typeof START | typeof END,
): CopiedRecord {
  const owners: (Call | undefined)[] = [];
  const record = RunRecord.read(entries, (call, line) => {
    owners[line] = call;
  });
  const found = find(record);
  if (found === START) return { upTo: 0, entries: [], cases: [] };
  const call = found === END ? undefined : found;
  const first = 1 + entries.findLastIndex((entry) => entry.type === "mark" && entry.mark === "restarted") + 1;
  const upTo = call && call.line > 0 ? call.line - 1 : entries.length;
  const dropped = findDropped(entries, owners, { call, first, upTo });

  const kept: RunEntry[] = [];
  // By the line of the original, how many lines the copy has up to there; its own first line is not a copied one.
  const lineOf: number[] = Array.from({ length: first }, () => 1);
  const before = first > 1 ? codeBefore(entries, first) : undefined;
  if (before) kept.push(before);
  for (let line = first; line <= upTo; line++) {
    const entry = dropped.has(line) ? undefined : toCopied(entries[line - 1]!);
    if (entry) kept.push(entry);
    lineOf[line] = kept.length + 1;
  }
  const copied = kept.map((entry) => renumber(entry, lineOf));
  return { upTo, entries: copied, cases: casesOf(entries, { copied, dropped, first, upTo }) };
}

/** Lines of the call itself, and of open questions. */
function findDropped(
  entries: readonly RunEntry[],
  owners: readonly (Call | undefined)[],
  { call, first, upTo }: { readonly call: Call | undefined; readonly first: number; readonly upTo: number },
): Set<number> {
  const retry = entries.findLastIndex(
    (entry, at) =>
      at < upTo && entry.type === "mark" && (entry.mark === "retried" || entry.mark === "limits_raised"),
  );
  const dropped = new Set<number>();
  const asked = new Map<Call, number[]>();
  for (let line = first; line <= upTo; line++) {
    const [entry, owner] = [entries[line - 1]!, owners[line]];
    if (owner === undefined) continue;
    if (owner === call && isOfThisTime(entry, owner, line > retry)) dropped.add(line);
    // A step or a sleep continues where it was.
    if (entry.type === "begun" && entry.call !== "step" && entry.call !== "sleep")
      asked.set(owner, [...(asked.get(owner) ?? []), line]);
    else if (entry.type === "answer" || entry.type === "call") asked.delete(owner);
  }
  for (const lines of asked.values()) for (const line of lines) dropped.add(line);
  return dropped;
}

/** Whether a line belongs to the last time that the call was made: what failed before a retry stays as it was. */
function isOfThisTime(entry: RunEntry, { position }: Call, isAfterRetry: boolean): boolean {
  if (entry.type === "begun") return entry.call !== "ask" || entry.position === position;
  if (entry.type === "attempt") return isAfterRetry;
  return entry.type === "answer" && entry.question_id === String(position);
}

/** What a line of the original is in the copy. */
function toCopied(entry: RunEntry): RunEntry | undefined {
  if (entry.type !== "status" && entry.type !== "mark") return entry;
  if (entry.type === "mark" && NEEDED.has(entry.mark)) return entry;
  return toCode(entry);
}

/** Only that other code ran from there on. */
function toCode({ at, version, code, reads }: StatusEntry | MarkEntry): MarkEntry | undefined {
  return code === undefined ? undefined : { at, type: "mark", mark: "started", version, code, reads };
}

/** The code that ran the job before a line. */
function codeBefore(entries: readonly RunEntry[], line: number): MarkEntry | undefined {
  const last = entries.slice(0, line - 1).findLast((entry) => "code" in entry && entry.code !== undefined);
  return last && toCode(last as StatusEntry | MarkEntry);
}

/** An entry whose line numbers are those of the copy. */
function renumber(entry: RunEntry, lineOf: readonly number[]): RunEntry {
  if ("made" in entry && entry.made) return { ...entry, made: lineOf[entry.made] ?? 1 };
  if (entry.type !== "mark" || !entry.cut) return entry;
  const cut = entry.cut
    .map(([first, last]) => [(lineOf[first - 1] ?? 1) + 1, lineOf[last] ?? 1] as const)
    .filter(([first, last]) => first <= last);
  return { ...entry, cut };
}

function casesOf(
  entries: readonly RunEntry[],
  {
    copied,
    dropped,
    first,
    upTo,
  }: {
    readonly copied: readonly RunEntry[];
    readonly dropped: ReadonlySet<number>;
    readonly first: number;
    readonly upTo: number;
  },
): CopiedCase[] {
  // Numbered as in the other job's log, whose first line is its own.
  const record = RunRecord.read([CREATED, ...copied]);
  const open = new Set(record.openCases());
  const lines = new Map<string, CaseLine[]>([...record.cases.values()].map((id) => [id, []]));
  for (let line = first; line <= upTo; line++) {
    const entry = entries[line - 1]!;
    if (entry.case_id !== undefined) lines.get(entry.case_id)?.push({ entry, isCopied: !dropped.has(line) });
  }
  return [...lines].map(([id, lines]) => ({
    id,
    lines,
    end: open.has(id)
      ? undefined
      : (lines.findLast(({ entry, isCopied }) => isCopied && isEnd(entry))?.entry as CallEntry),
  }));
}

/** In place of the line that each log begins with. */
const CREATED: StatusEntry = { at: "", type: "status", from: null, to: "stopped" };

function isEnd(entry: RunEntry): boolean {
  return entry.type === "call" && (entry.call === "close" || entry.error?.name === "QuestionExpiredError");
}

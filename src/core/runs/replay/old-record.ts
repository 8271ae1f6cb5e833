import type { AttemptEntry, BegunEntry, CallEntry, RunEntry } from "../../models/run-entry.ts";
import type { CallKind } from "./call.ts";
import { type ScopeRecord, UNKNOWN } from "./scope-record.ts";

/*
 * Version 0.1.0 knew a call by its position among the calls of its scope. Which of the calls of its name it
 * was follows from the order of positions, which is the order in which they were made, unless some are
 * missing.
 */

type CallLine = CallEntry | AttemptEntry | BegunEntry;

interface OldCall {
  readonly line: CallLine;
  readonly kind: CallKind;
  readonly caseId: string | undefined;
}

/** Makes the calls that lines of version 0.1.0 belong to; tells whether there are any. */
export function readOldCalls(
  entries: readonly RunEntry[],
  scopeOf: (caseId: string | undefined) => ScopeRecord,
): boolean {
  const first = entries.find(isCallLine);
  // None is older than the first.
  if (!first || first.n !== undefined) return false;
  const old = new Map<string, OldCall>();
  for (const entry of entries) {
    if (!isCallLine(entry) || entry.n !== undefined) continue;
    const kind = entry.call ?? "step";
    const caseId = kind === "open_case" ? undefined : entry.case_id;
    // Cases that were opened beside each other have one position.
    const place = kind === "open_case" ? `open_case ${entry.name}` : `${entry.position} ${caseId ?? ""}`;
    // Only a step has attempts; what else a line says of its kind is so.
    if (entry.type !== "attempt" || !old.has(place)) old.set(place, { line: entry, kind, caseId });
  }
  const inOrder = [...old.values()].sort((a, b) => a.line.position - b.line.position);
  const gappy = scopesWithGaps(inOrder);
  for (const caseId of gappy) scopeOf(caseId).findByPosition();
  const counts = new Map<string, number>();
  for (const { line, kind, caseId } of inOrder) {
    const same = `${kind} ${caseId ?? ""}\n${line.name}`;
    const n = counts.get(same) ?? 0;
    counts.set(same, n + 1);
    const scope = scopeOf(caseId);
    const isCounted = kind === "open_case" || !gappy.has(caseId);
    const call = scope.recorded(kind, line, isCounted ? n : UNKNOWN);
    scope.place(call);
    call.isOld = true;
  }
  return true;
}

/**
 * Scopes in which a call left no line before one that did: it was under way when the process ended. Which calls of its
 * name the others are cannot be counted there.
 */
function scopesWithGaps(inOrder: readonly OldCall[]): ReadonlySet<string | undefined> {
  const next = new Map<string | undefined, number>();
  const gappy = new Set<string | undefined>();
  for (const { line, kind, caseId } of inOrder) {
    if (kind === "open_case") continue;
    const expected = next.get(caseId) ?? 0;
    if (line.position !== expected) gappy.add(caseId);
    next.set(caseId, line.position + 1);
  }
  return gappy;
}

/** A sleep that was recorded when it began. */
export function isOldSleep(entry: CallEntry): boolean {
  return entry.call === "sleep" && entry.n === undefined;
}

function isCallLine(entry: RunEntry): entry is CallLine {
  return entry.type === "call" || entry.type === "attempt" || entry.type === "begun";
}

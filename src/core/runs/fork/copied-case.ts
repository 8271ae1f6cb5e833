import type { StoredCase } from "../../models/case.ts";
import type { CaseNodeUpdate } from "../../models/case-node-update.ts";
import { isTerminal } from "../../models/entity-status.ts";
import type { RunEntry } from "../../models/run-entry.ts";
import type { CaseLine, CopiedCase } from "./copied-record.ts";

/** A case as it was at a line of its job's log, with its history up to there. */
export interface CaseThen {
  readonly item: StoredCase;
  readonly updates: readonly CaseNodeUpdate[];
}

/** Takes a case back to where the copied beginning of its job's record leaves it. Its cost is that of the other job. */
export function caseThen(
  item: StoredCase,
  history: readonly CaseNodeUpdate[],
  { lines, end }: CopiedCase,
): CaseThen {
  const updates = updatesOf(history, lines).map((update, at) => ({ ...update, index: at + 1 }));
  const open: StoredCase = {
    ...item,
    status: "in_progress",
    question: null,
    update_count: updates.length,
    last_error: updates.findLast(({ error }) => error !== null)?.error ?? null,
    total_cost: 0,
    final_delivery: null,
    finished_at: null,
  };
  if (!end) return { item: open, updates };
  const last = updates.findLast((update) => update.is_final);
  const ended = isTerminal(item.status) ? item.status : "failed";
  const closed: StoredCase = {
    ...open,
    status: end.call !== "close" ? ended : end.error ? "failed" : "completed",
    final_delivery: last?.payload ?? null,
    finished_at: last?.created_at ?? end.at,
  };
  return { item: closed, updates };
}

/**
 * The updates that belong to copied lines. An update does not say which line it was stored with, but both have the time
 * of their unit, and are in one order.
 */
function updatesOf(history: readonly CaseNodeUpdate[], lines: readonly CaseLine[]): CaseNodeUpdate[] {
  const kept: CaseNodeUpdate[] = [];
  let next = 0;
  let time = "";
  for (const { entry, isCopied } of lines) {
    // The clock may have been set back: the times of a case never go back.
    if (entry.at > time) time = entry.at;
    if (!hasUpdate(entry)) continue;
    // Those that no line belongs to: the case ended with its job, which was retried.
    for (; next < history.length && (history[next]!.created_at ?? "") < time; next++)
      kept.push(history[next]!);
    if (history[next]?.created_at !== time) continue;
    if (isCopied) kept.push(history[next]!);
    next++;
  }
  return kept;
}

/** Whether a case gets an update together with a line of its job's log. */
function hasUpdate(entry: RunEntry): boolean {
  switch (entry.type) {
    case "call":
      if (entry.call === "ask") return entry.error?.name === "QuestionExpiredError";
      return entry.call === "step" || entry.call === "update" || entry.call === "close";
    case "attempt":
      // The end of a run records steps that were under way, too.
      return entry.call !== "ask" && entry.started_at !== undefined;
    case "begun":
      return entry.call === "ask";
    case "answer":
      return true;
    default:
      return false;
  }
}

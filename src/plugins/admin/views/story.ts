import type { RunEntry } from "../../../core/models/run-entry.ts";
import type { LogEntry } from "../../../core/store/store.ts";
import { formatDuration, toLabel } from "./format.ts";
import { renderJson } from "./json-tree.ts";
import { labelOf, timePiece } from "./pieces.ts";

/** A line of a job's history: who did what, and when. */
export interface StoryLine {
  readonly text: string;
  readonly by: string;
  readonly tone: "" | "good" | "bad" | "warn" | "run";
  readonly time: string;
  readonly detail: string;
}

/** The history of a job, newest first. */
export function toStory(entries: readonly LogEntry<RunEntry>[], now: Date): StoryLine[] {
  const lines: StoryLine[] = [];
  for (const { entry } of entries) {
    const line = toLine(entry);
    if (line)
      lines.push({ by: "", detail: "", tone: "", ...line, time: timePiece(entry.at, now).toString() });
  }
  return lines.reverse();
}

type Line = Pick<StoryLine, "text"> & Partial<Pick<StoryLine, "by" | "tone" | "detail">>;

function toLine(entry: RunEntry): Line | undefined {
  if (entry.type === "status") return statusLine(entry);
  if (entry.type === "mark") return markLine(entry);
  if (entry.type === "attempt") {
    return { text: `Step "${entry.name}", try ${entry.attempt}, failed: ${entry.error}`, tone: "warn" };
  }
  if (entry.type === "answer") {
    return {
      text: `Question answered${entry.message ? `: ${entry.message}` : ""}`,
      by: byOf(entry.by),
      tone: "good",
      detail: renderJson(entry.answer),
    };
  }
  if (entry.type === "call") return callLine(entry);
  return undefined;
}

function statusLine(entry: Extract<RunEntry, { type: "status" }>): Line {
  const reason = entry.reason ? ` (${toLabel(entry.reason).toLowerCase()})` : "";
  const text = entry.from === null ? "Created" : `${labelOf(entry.from)} → ${labelOf(entry.to)}${reason}`;
  return { text, by: byOf(entry.by), tone: toneOf(entry.to) };
}

function markLine(entry: Extract<RunEntry, { type: "mark" }>): Line {
  const text = `${MARKS[entry.mark] ?? toLabel(entry.mark)}${entry.message ? `: ${entry.message}` : ""}`;
  return { text, by: byOf(entry.by), tone: entry.mark === "interrupted" ? "bad" : "" };
}

const MARKS: Readonly<Record<string, string>> = {
  created: "Created",
  started: "Run begun",
  interrupted: "Interrupted by the end of the process",
  resumed: "Taken up again where it was",
  restarted: "Begun again from the start",
  retried: "Retried",
  limits_raised: "Limits raised",
  waiting_for_agent: "Waits: its agent is not on this service",
  note: "Note",
};

function callLine(entry: Extract<RunEntry, { type: "call" }>): Line | undefined {
  if (entry.error) {
    return { text: `Step "${entry.name}" failed: ${entry.error.message}`, tone: "bad" };
  }
  if (entry.call === "open_case") return { text: `Case "${entry.name}" opened` };
  if (entry.call === "close") return { text: `Case closed`, tone: "good" };
  if (entry.call === "ask") return { text: `Question settled: ${entry.name}` };
  if (entry.call !== "step") return undefined;
  const took = entry.started_at
    ? ` in ${formatDuration(Date.parse(entry.at) - Date.parse(entry.started_at))}`
    : "";
  return { text: `Step "${entry.name}" done${took}` };
}

function byOf(by: string | undefined): string {
  return by ? `by ${by}` : "";
}

function toneOf(status: string): StoryLine["tone"] {
  if (status === "completed") return "good";
  if (status === "failed") return "bad";
  if (status === "awaiting" || status === "cancelling" || status === "cancelled") return "warn";
  return status === "in_progress" ? "run" : "";
}

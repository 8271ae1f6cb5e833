import type { CallEntry, MarkEntry, RunEntry, WorkEntry } from "../../../core/models/run-entry.ts";
import type { LogEntry } from "../../../core/store/store.ts";
import { calledOn } from "./calls.ts";
import { formatDuration, toLabel } from "./format.ts";
import { renderJson } from "./json-tree.ts";
import { labelOf, offsetPiece } from "./pieces.ts";

/** A line of a job's history: who did what, and when. */
export interface StoryLine {
  readonly text: string;
  readonly by: string;
  readonly tone: "" | "good" | "bad" | "warn" | "run";
  readonly time: string;
  readonly detail: string;
}

/** The history of a job, newest first, with the time since its creation of each line. */
export function toStory(
  entries: readonly LogEntry<RunEntry>[],
  { id, created_at }: { readonly id: string; readonly created_at: string },
): StoryLine[] {
  const lines: StoryLine[] = [];
  const names = new Map<string, string>();
  let before: Before = {};
  let last: LogEntry<RunEntry> | undefined;
  for (const { seq, entry } of entries) {
    // Omitted entries may have done more.
    if (last && seq !== last.seq + 1) before = {};
    const downSince = tellsDown(entry)
      ? ((entry as MarkEntry).since ?? last?.entry.at ?? entry.at)
      : undefined;
    if (entry.type === "call" && entry.call === "open_case") names.set(String(entry.result), entry.name);
    const line = toLine(
      entry.type === "call" ? { ...entry, name: calledOn(entry, id) } : entry,
      before,
      names,
    );
    if (line) {
      const time = offsetPiece(downSince ?? entry.at, created_at).toString();
      lines.push({ by: "", detail: "", tone: "", ...line, time });
    }
    before = follow(before, entry, downSince);
    last = { seq, entry };
  }
  return lines.reverse();
}

/** What a line of the history may refer to. */
interface Before {
  /** What was done last. */
  readonly done?: string;
  /** Since when the service is down. */
  readonly downSince?: string;
}

function tellsDown(entry: RunEntry): boolean {
  return entry.type === "mark" && entry.mark === "interrupted" && entry.by === undefined;
}

function follow(before: Before, entry: RunEntry, downSince: string | undefined): Before {
  if (downSince !== undefined) return { downSince, ...before };
  if (entry.type === "mark" && RESUMES.includes(entry.mark)) return { done: before.done };
  if (entry.type !== "call") return before;
  return { ...before, done: DONE[entry.call]?.(entry.name) ?? before.done };
}

const RESUMES: readonly MarkEntry["mark"][] = ["resumed", "restarted", "started"];

const DONE: Partial<Record<CallEntry["call"], (name: string) => string>> = {
  step: (name) => `step "${name}"`,
  update: (name) => `update "${name}"`,
  ask: (name) => `question "${name}"`,
  open_case: (name) => `the opening of case "${name}"`,
  close: () => "the end of a case",
  sleep: () => "its sleep",
  start: (name) => `the start of a child of agent "${name}"`,
  stop: (name) => `the stop of a child of agent "${name}"`,
  child: (name) => `the end of a child of agent "${name}"`,
  event: (name) => `event "${name}"`,
};

type Line = Pick<StoryLine, "text"> & Partial<Pick<StoryLine, "by" | "tone" | "detail">>;

/** Names of cases by their ids. */
type CaseNames = ReadonlyMap<string, string>;

function toLine(entry: RunEntry, before: Before, names: CaseNames): Line | undefined {
  if (entry.type === "status") return statusLine(entry);
  if (entry.type === "mark") return markLine(entry, before);
  if (entry.type === "attempt") {
    const text = `${wordOf(entry)} "${entry.name}"${ofCase(entry, names)}, attempt ${entry.attempt}, failed: ${entry.error}`;
    return { text, tone: "warn" };
  }
  if (entry.type === "answer") {
    return {
      text: `Question answered${entry.message ? `: ${entry.message}` : ""}`,
      by: byOf(entry.by),
      tone: "good",
      detail: renderJson(entry.answer),
    };
  }
  if (entry.type === "call") return callLine(entry, names);
  return undefined;
}

function statusLine(entry: Extract<RunEntry, { type: "status" }>): Line {
  const reason = entry.reason ? ` (${toLabel(entry.reason).toLowerCase()})` : "";
  const text = entry.from === null ? "Created" : `${labelOf(entry.from)} → ${labelOf(entry.to)}${reason}`;
  return { text, by: byOf(entry.by), tone: toneOf(entry.to) };
}

function markLine(entry: MarkEntry, { done, downSince }: Before): Line {
  if (tellsDown(entry)) {
    const at = entry.doing === undefined ? "while this job was in progress" : `at ${entry.doing}`;
    return { text: `Service ${entry.doing === undefined ? "stopped" : "crashed"} ${at}`, tone: "bad" };
  }
  const down =
    downSince === undefined
      ? ""
      : `Down for ${formatDuration(Date.parse(entry.at) - Date.parse(downSince))}: `;
  if (entry.mark === "resumed")
    return { text: `${down}resumed ${done ? `after ${done}` : "where it was"}`.replace(/^r/, "R") };
  if (entry.mark === "restarted" && down) return { text: `${down}started over`, by: byOf(entry.by) };
  const text = `${MARKS[entry.mark] ?? toLabel(entry.mark)}${entry.message ? `: ${entry.message}` : ""}`;
  return { text, by: byOf(entry.by) };
}

const MARKS: Readonly<Record<string, string>> = {
  created: "Created",
  started: "Run started",
  interrupted: "Run ended",
  restarted: "Started over",
  retried: "Retried",
  limits_raised: "Limits raised",
  waiting_for_agent: "Waiting: its agent is not registered on this service",
  held: "Held",
  continued: "Continued",
  forked: "Forked",
  note: "Note",
};

function ofCase({ case_id }: { readonly case_id?: string }, names: CaseNames): string {
  const name = case_id === undefined ? undefined : names.get(case_id);
  return name === undefined ? "" : ` of case "${name}"`;
}

function callLine(entry: Extract<RunEntry, { type: "call" }>, names: CaseNames): Line | undefined {
  if (entry.call === "start") {
    if (entry.error) return { text: `Child not started: ${entry.error.message}`, tone: "bad" };
    return { text: `Child started: ${String(entry.result)} of agent "${entry.name}"` };
  }
  if (entry.call === "child") {
    if (entry.error) return { text: entry.error.message, tone: "bad" };
    return { text: `Child completed: ${entry.key} of agent "${entry.name}"`, tone: "good" };
  }
  if (entry.call === "event") {
    if (entry.error) return { text: entry.error.message, tone: "warn" };
    return {
      text: entry.name === "Message" ? "Message received" : `Event received: ${entry.name}`,
      tone: "good",
    };
  }
  if (entry.error) {
    return {
      text: `${wordOf(entry)} "${entry.name}"${ofCase(entry, names)} failed: ${entry.error.message}`,
      tone: "bad",
    };
  }
  if (entry.call === "open_case") return { text: `Case "${entry.name}" opened` };
  if (entry.call === "close") {
    const name = names.get(entry.case_id ?? "");
    return { text: name === undefined ? "Case closed" : `Case "${name}" closed`, tone: "good" };
  }
  if (entry.call === "tag") return { text: `Tagged ${entry.name}` };
  if (entry.call === "ask") return { text: `Question settled: ${entry.name}` };
  if (entry.call !== "step") return undefined;
  const took = entry.started_at
    ? ` in ${formatDuration(Date.parse(entry.at) - Date.parse(entry.started_at))}`
    : "";
  return { text: `${wordOf(entry)} "${entry.name}"${ofCase(entry, names)} done${took}` };
}

/** What a step is called by what it does. */
function wordOf({ kind }: WorkEntry): string {
  return kind === undefined ? "Step" : kind === "person" ? "Work of a person" : toLabel(kind);
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

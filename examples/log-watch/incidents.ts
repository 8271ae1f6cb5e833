import { createHash } from "node:crypto";
import { LEVELS, type Level, type LogEntry } from "./log-entry.ts";

/** Entries that are about the same thing. */
export interface Incident {
  /** The same for the same trouble, whenever it is computed. */
  readonly id: string;
  readonly title: string;
  readonly level: Level;
  readonly count: number;
  readonly first: string;
  readonly last: string;
  readonly files: readonly string[];
  readonly samples: readonly LogEntry[];
  /** Most entries in any five minutes. */
  readonly peak: number;
}

export type Severity = "critical" | "major" | "minor";

const SAMPLES = 3;
const WINDOW = 5 * 60_000;
/** Missing pages that one client requests before it counts as scanning for vulnerabilities. */
const SCAN_PAGES = 8;
/** Fewer warnings than this are normal. */
const FEW = 3;

/** Groups abnormal lines by their text, ignoring ids, numbers and addresses; worst first. */
export function groupIncidents(entries: readonly LogEntry[]): Incident[] {
  const scanners = findScanners(entries);
  const groups = new Map<string, LogEntry[]>();
  for (const entry of entries) {
    if (entry.level === "info") continue;
    const isScan =
      entry.client !== undefined && scanners.has(entry.client) && entry.message.startsWith("404");
    const key = isScan ? `${entry.client} looks for pages that are not there` : fingerprint(entry);
    groups.set(key, [...(groups.get(key) ?? []), entry]);
  }
  return [...groups]
    .map(([title, group]) => toIncident(title, group))
    .filter((one) => one.level !== "warn" || one.count >= FEW)
    .sort((a, b) => rank(b) - rank(a) || b.count - a.count || a.id.localeCompare(b.id));
}

/** The severity: critical if it ended a service or occurred very often. */
export function assess(incident: Incident): Severity {
  if (incident.level === "fatal" || (incident.level === "error" && incident.peak >= 20)) return "critical";
  return incident.level === "error" ? "major" : "minor";
}

function toIncident(title: string, group: readonly LogEntry[]): Incident {
  const sorted = group.toSorted((a, b) => a.time.localeCompare(b.time));
  const level = LEVELS[Math.max(...group.map((entry) => LEVELS.indexOf(entry.level)))]!;
  return {
    id: `incident-${createHash("sha256").update(title).digest("hex").slice(0, 10)}`,
    title,
    level,
    count: group.length,
    first: sorted[0]!.time,
    last: sorted.at(-1)!.time,
    files: [...new Set(group.map((entry) => entry.source.replace(/:\d+$/, "")))],
    samples: sorted.slice(0, SAMPLES),
    peak: peak(sorted.map((entry) => Date.parse(entry.time))),
  };
}

/** An entry's text without its variable parts, and where in the code it happened. */
function fingerprint(entry: LogEntry): string {
  const text = entry.message
    .replace(/\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/gi, "<id>")
    .replace(/\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b/g, "<address>")
    .replace(/(?<=[/ ])\d+\b/g, "<n>");
  const exception = entry.stack.find((line) => /(Error|Exception)\b/.test(line));
  const frame = entry.stack.find((line) => line.startsWith("at "));
  return [text, exception, frame].filter(Boolean).join(" | ");
}

function findScanners(entries: readonly LogEntry[]): Set<string> {
  const pages = new Map<string, Set<string>>();
  for (const { client, message } of entries) {
    if (client === undefined || !message.startsWith("404")) continue;
    pages.set(client, (pages.get(client) ?? new Set()).add(message));
  }
  return new Set([...pages].filter(([, those]) => those.size >= SCAN_PAGES).map(([client]) => client));
}

function peak(times: readonly number[]): number {
  let most = 0;
  let from = 0;
  for (let to = 0; to < times.length; to++) {
    while (times[to]! - times[from]! > WINDOW) from++;
    most = Math.max(most, to - from + 1);
  }
  return most;
}

function rank(incident: Incident): number {
  return ["minor", "major", "critical"].indexOf(assess(incident));
}

import type { Level, LogEntry } from "./log-entry.ts";

type Parsed = Omit<LogEntry, "source" | "stack">;

export interface ParsedLog {
  readonly entries: LogEntry[];
  /** Lines of no known format that continue no entry. */
  readonly unknown: string[];
}

/** Reads a log, line by line, each in any known format. */
export function parseLog(text: string, file: string, firstLine = 1): ParsedLog {
  const log: ParsedLog = { entries: [], unknown: [] };
  for (const [index, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    const source = `${file}:${firstLine + index}`;
    const parsed = FORMATS.map((format) => format(line)).find((one) => one !== undefined);
    const last = log.entries.at(-1);
    if (parsed) log.entries.push({ ...parsed, source, stack: [] });
    else if (last && continues(line)) (last.stack as string[]).push(line.trim());
    else log.unknown.push(source);
  }
  return log;
}

const FORMATS: readonly ((line: string) => Parsed | undefined)[] = [
  readJson,
  readNginxAccess,
  readNginxError,
  readText,
  readSpring,
];

/** Stack frames, causes, and the line that names the exception. */
function continues(line: string): boolean {
  return /^\s+at |^\s+\.\.\. |^Caused by: |^[\w.$]*(Error|Exception)\b/.test(line);
}

function readJson(line: string): Parsed | undefined {
  if (!line.startsWith("{")) return undefined;
  try {
    const { time, level, msg } = JSON.parse(line) as { time: string; level: string; msg: string };
    return { time: new Date(time).toISOString(), level: toLevel(level), message: msg };
  } catch {
    return undefined; // torn by a full disk or a crash
  }
}

function readNginxAccess(line: string): Parsed | undefined {
  const match =
    /^(\S+) \S+ \S+ \[(\d+)\/(\w+)\/(\d+):([\d:]+) ([+-]\d{4})\] "(\S+) (\S+)[^"]*" (\d{3}) /.exec(line);
  if (!match) return undefined;
  const [, client, day, month, year, time, zone, method, path, status] = match;
  const level = Number(status) >= 500 ? "error" : Number(status) >= 400 ? "warn" : "info";
  const message = `${status} ${method} ${path!.replace(/\?.*/, "")}`;
  return {
    time: new Date(`${day} ${month} ${year} ${time} ${zone}`).toISOString(),
    level,
    message,
    client: client!,
  };
}

function readNginxError(line: string): Parsed | undefined {
  const match = /^(\d{4})\/(\d\d)\/(\d\d) ([\d:]+) \[(\w+)\] \d+#\d+: (?:\*\d+ )?(.*)$/.exec(line);
  if (!match) return undefined;
  const [, year, month, day, time, level, rest] = match;
  const [message, ...details] = rest!.split(", ");
  const upstream = details.find((one) => one.startsWith("upstream:"))?.replace(/(:\/\/[^/]+).*/, "$1");
  const text = upstream ? `${message}, ${upstream}` : message!;
  return { time: `${year}-${month}-${day}T${time}.000Z`, level: toLevel(level!), message: text };
}

/** `2026-10-14 06:02:46,666 ERROR [cart] …` */
function readText(line: string): Parsed | undefined {
  const match = /^(\d{4}-\d\d-\d\d) ([\d:]+),(\d{3}) (\w+)\s+(.*)$/.exec(line);
  if (!match) return undefined;
  const [, day, time, milliseconds, level, message] = match;
  return { time: `${day}T${time}.${milliseconds}Z`, level: toLevel(level!), message: message! };
}

/** `2026-10-14T06:02:00.634Z ERROR 1 --- [worker-3] shop.MailJob : …` */
function readSpring(line: string): Parsed | undefined {
  const match = /^(\S+Z)\s+(\w+) \d+ --- \[[^\]]*\] (\S+)\s*: (.*)$/.exec(line);
  if (!match) return undefined;
  const [, time, level, logger, message] = match;
  return { time: new Date(time!).toISOString(), level: toLevel(level!), message: `${logger}: ${message}` };
}

function toLevel(word: string): Level {
  const level = word.toLowerCase();
  if (["fatal", "emerg", "alert", "crit", "critical"].includes(level)) return "fatal";
  if (["error", "err", "severe"].includes(level)) return "error";
  return level.startsWith("warn") ? "warn" : "info";
}

import { describeError, readable } from "./error-text.ts";
import type { Redactor } from "./redactor.ts";

export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];
export const LOG_FORMATS = ["text", "json"] as const;
export type LogFormat = (typeof LOG_FORMATS)[number];

/** One line of the log. */
export interface LogRecord {
  readonly time: string;
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Writes log lines with fields; secrets are redacted. */
export interface Logger {
  debug(message: string, fields?: Record<string, unknown>): void;
  info(message: string, fields?: Record<string, unknown>): void;
  warn(message: string, fields?: Record<string, unknown>): void;
  error(message: string, fields?: Record<string, unknown>): void;
  /** A logger that adds these fields to every line. */
  with(fields: Record<string, unknown>): Logger;
}

export interface LoggerParts {
  readonly level: LogLevel;
  readonly format: LogFormat;
  readonly redactor: Redactor;
  readonly clock: () => Date;
  /** Where lines go. */
  readonly write: (line: string) => void;
  /** Names the instance in every line, where several share the store. */
  readonly instance?: () => string | undefined;
  /** Receives every line at or above the level. */
  readonly observe?: (record: LogRecord) => void;
}

/** Creates a logger. An `error` field is written with its stack and cause. */
export function createLogger(parts: LoggerParts, bound: Record<string, unknown> = {}): Logger {
  const least = LOG_LEVELS.indexOf(parts.level);
  const at =
    (level: LogLevel) =>
    (message: string, fields: Record<string, unknown> = {}) => {
      if (LOG_LEVELS.indexOf(level) < least) return;
      const instance = parts.instance?.();
      const record: LogRecord = {
        time: parts.clock().toISOString(),
        level,
        message: parts.redactor.text(message),
        fields: parts.redactor.json(plain(Object.assign(instance ? { instance } : {}, bound, fields))),
      };
      parts.write(parts.format === "json" ? toJsonLine(record) : toTextLine(record));
      parts.observe?.(record);
    };
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    with: (fields) => createLogger(parts, Object.assign({}, bound, fields)),
  };
}

function toJsonLine({ time, level, message, fields }: LogRecord): string {
  const own = { time, level, message };
  const rest = Object.entries(fields).map(([key, value]) => [key in own ? `field.${key}` : key, value]);
  return `${JSON.stringify({ ...own, ...Object.fromEntries(rest) })}\n`;
}

function toTextLine({ time, level, message, fields }: LogRecord): string {
  const { error, ...rest } = fields;
  const pairs = Object.entries(rest).map(([key, value]) => ` ${key}=${oneLine(value)}`);
  const trouble = error === undefined ? "" : `\n  ${asText(error).split("\n").map(visible).join("\n  ")}`;
  return `${time.slice(11, 23)} ${level.toUpperCase().padEnd(5)} ${oneLine(message, true)}${pairs.join("")}${trouble}\n`;
}

function oneLine(value: unknown, bare = false): string {
  const needsQuotes = !bare && typeof value === "string" && /[\s"=]/.test(value);
  return visible(needsQuotes ? JSON.stringify(value) : asText(value));
}

function asText(value: unknown): string {
  return typeof value === "string" ? value : String(JSON.stringify(value));
}

/** Control characters could forge lines or control a terminal. */
function visible(text: string): string {
  return text.replace(/\p{Cc}/gu, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`);
}

function plain(fields: Record<string, unknown>): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    result[key] = value instanceof Error ? describeError(value) : toJsonValue(value);
  }
  return result;
}

function toJsonValue(value: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(value)) as unknown;
  } catch {
    return readable(() => String(value));
  }
}

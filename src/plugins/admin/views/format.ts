import { formatRelative, UNITS } from "../../../core/base/relative-time.ts";

/** A point in time as pages show it. */
export interface TimeView {
  /** For the `datetime` attribute. */
  readonly iso: string;
  readonly relative: string;
  /** To the second, in UTC; the page's script turns it into the reader's own time. */
  readonly full: string;
}

/** A timestamp for a page, or `undefined` if it is missing or invalid. */
export function toTimeView(timestamp: string | null | undefined, now: Date): TimeView | undefined {
  if (!timestamp) return undefined;
  const date = new Date(timestamp);
  if (Number.isNaN(date.getTime())) return undefined;
  const iso = date.toISOString();
  return { iso, relative: formatRelative(date, now), full: `${iso.slice(0, 19).replace("T", " ")} UTC` };
}

/** Two units at most: `"340 ms"`, `"1.2 s"`, `"3 min 4 s"`, `"2 d 5 h"`. */
export function formatDuration(milliseconds: number): string {
  const ms = Math.max(0, milliseconds);
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${trim(ms / 1000, ms < 9950 ? 1 : 0)} s`;
  const index = UNITS.findIndex(([, length]) => ms >= length);
  const [unit, length] = UNITS[index]!;
  const whole = Math.floor(ms / length);
  const [smaller, smallerLength] = UNITS[index + 1]!;
  const rest = Math.floor((ms - whole * length) / smallerLength);
  return rest === 0 ? `${whole} ${unit}` : `${whole} ${unit} ${rest} ${smaller}`;
}

/** Milliseconds between two timestamps, the second one defaults to now. */
export function elapsed(from: string | null | undefined, to: string | null | undefined, now: Date): number {
  if (!from) return 0;
  return Math.max(0, (to ? Date.parse(to) : now.getTime()) - Date.parse(from));
}

/** Small amounts keep their significant digits: `"$0.0021"`, `"$1.50"`, `"$12,400"`. */
export function formatCost(amount: number, currency: string): string {
  if (!Number.isFinite(amount) || amount === 0) return `${currency}0`;
  // A sum that was added in another order differs in its last bits, and is the same amount.
  const size = Number(Math.abs(amount).toPrecision(12));
  const text =
    size >= 10_000
      ? formatCount(Math.round(size))
      : size >= 1
        ? withCommas(size.toFixed(2))
        : size
            .toFixed(Math.min(8, 1 - Math.floor(Math.log10(size))))
            .replace(/0+$/, "")
            .padEnd(4, "0");
  return `${amount < 0 ? "−" : ""}${currency}${text}`;
}

/** What is shown of a time: all to the second or the minute with the zone, or only a clock or the day with it. */
export type TimePart = "all" | "minute" | "clock" | "second" | "day";

/** Writes times of a zone: `"2026-01-31 09:30:00 GMT+1"`; `"09:30:00.000"` as `clock`, `"09:30:00"` as `second`. */
export function stampsIn(zone: string): (timestamp: string | number, part?: TimePart) => string {
  const format = new Intl.DateTimeFormat("en", { ...STAMP, timeZone: zone });
  return (timestamp, part = "all") => {
    const date = new Date(timestamp);
    if (Number.isNaN(date.getTime())) return "–";
    const of = Object.fromEntries(format.formatToParts(date).map(({ type, value }) => [type, value]));
    const minute = `${of.hour}:${of.minute}`;
    const second = `${minute}:${of.second}`;
    if (part === "second") return second;
    if (part === "clock") return `${second}.${of.fractionalSecond}`;
    if (part === "day") return `${of.month}-${of.day} ${minute}`;
    const offset = /^GMT(\+0)?$/.test(of.timeZoneName ?? "") ? "UTC" : of.timeZoneName;
    return `${of.year}-${of.month}-${of.day} ${part === "minute" ? minute : second} ${offset}`;
  };
}

const STAMP: Intl.DateTimeFormatOptions = {
  ...{ year: "numeric", month: "2-digit", day: "2-digit", hourCycle: "h23", timeZoneName: "shortOffset" },
  ...{ hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 },
};

/** `"1,234,567"`. */
export function formatCount(count: number): string {
  return withCommas(String(count));
}

/** `"12 B"`, `"3.4 kB"`, `"1.2 MB"`. */
export function formatBytes(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = bytes;
  let unit = 0;
  for (; size >= 1000 && unit < units.length - 1; unit++) size /= 1000;
  return `${trim(size, unit > 0 && size < 100 ? 1 : 0)} ${units[unit]}`;
}

/** `in_progress` → `In progress`. */
export function toLabel(name: string): string {
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function withCommas(digits: string): string {
  return digits.replace(/^\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ","));
}

function trim(value: number, digits: number): string {
  return value.toFixed(digits).replace(/\.0+$/, "");
}

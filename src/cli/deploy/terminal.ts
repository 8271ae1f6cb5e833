import { stripVTControlCharacters } from "node:util";

/** Text truncated to a visible width. */
export function cut(text: string, width: number): string {
  const seen = stripVTControlCharacters(text);
  return seen.length <= width ? text : `${seen.slice(0, Math.max(0, width - 1))}…`;
}

/** Text padded to a visible width. */
export function pad(text: string, width: number): string {
  return text + " ".repeat(Math.max(0, width - stripVTControlCharacters(text).length));
}

/** A duration as readable text. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

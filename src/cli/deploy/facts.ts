import type { Paint } from "../paint.ts";

/** Names and values, one per line; those without a value are omitted. */
export function facts(
  paint: Paint,
  list: readonly (readonly [string, string | undefined | null])[],
): string[] {
  const shown = list.filter(([, value]) => value !== undefined && value !== null && value !== "");
  const width = Math.max(...shown.map(([name]) => name.length)) + 2;
  return shown.map(([name, value]) => `  ${paint("dim", name.padEnd(width))}${value}`);
}

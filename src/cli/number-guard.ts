/** Prefix of an argument that must stay unchanged; no shell can pass an argument with it. */
const MARK = "\u0001";

/**
 * The parser converts arguments that look like numbers to numbers, and so changes ids such as `012345678901`,
 * `1e5` or `1.10`; it reads `-1` as an option and drops empty values. Marked arguments pass through
 * unchanged.
 */
export function guardNumbers(argv: readonly string[]): string[] {
  return argv.map((word) => {
    if (needsMark(word)) return MARK + word;
    const assigned = /^(--[^=]+=)(.*)$/s.exec(word);
    return assigned && needsMark(assigned[2]!) ? assigned[1]! + MARK + assigned[2] : word;
  });
}

/** Removes the marks. */
export function unguard<T>(value: T): T {
  if (typeof value === "string") return (value.startsWith(MARK) ? value.slice(1) : value) as T;
  return Array.isArray(value) ? (value.map(unguard) as T) : value;
}

function needsMark(text: string): boolean {
  return text === "" || text === "-" || Number.isFinite(Number(text));
}

/** Begins a word that must stay as it is; no shell hands over a word with it. */
const MARK = "\u0001";

/**
 * The parser turns words that look like numbers into numbers, and so changes ids such as `012345678901`, `1e5` or `1.10`;
 * it takes `-1` for an option and drops empty values. Marked, they pass through.
 */
export function guardNumbers(argv: readonly string[]): string[] {
  return argv.map((word) => {
    if (needsMark(word)) return MARK + word;
    const assigned = /^(--[^=]+=)(.*)$/s.exec(word);
    return assigned && needsMark(assigned[2]!) ? assigned[1]! + MARK + assigned[2] : word;
  });
}

/** Takes the marks off again. */
export function unguard<T>(value: T): T {
  if (typeof value === "string") return (value.startsWith(MARK) ? value.slice(1) : value) as T;
  return Array.isArray(value) ? (value.map(unguard) as T) : value;
}

function needsMark(text: string): boolean {
  return text === "" || text === "-" || Number.isFinite(Number(text));
}

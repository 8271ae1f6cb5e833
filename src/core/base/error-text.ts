/**
 * An error's message. Anything can be thrown: an unreadable value is reported as such, and reading it never
 * throws.
 */
export function messageOf(error: unknown): string {
  return readable(() => toText(error instanceof Error ? error.message : error));
}

/** The message of the innermost cause that has one; of a failed connection it names the host and why. */
export function innermostMessage(error: unknown): string {
  let message = messageOf(error);
  for (let at: unknown = error; at instanceof Error; at = at.cause)
    if (at.message !== "") message = at.message;
  return message;
}

/** An error with its stack and its chain of causes, as text. */
export function describeError(error: unknown): string {
  const told = new Set<unknown>();
  const lines: string[] = [];
  let one = error;
  do {
    told.add(one);
    const current = one;
    lines.push(readable(() => (current instanceof Error ? stackOf(current) : toText(current))));
    one = current instanceof Error ? causeOf(current) : undefined;
  } while (one !== undefined && !told.has(one));
  return lines.join("\ncaused by ");
}

/** The cause of an error, if there is one that can be read. */
export function causeOf(error: Error): unknown {
  try {
    return error.cause;
  } catch {
    return undefined;
  }
}

/** An error's stack, or at least its name and message. */
function stackOf(error: Error): string {
  return typeof error.stack === "string" ? error.stack : `${toText(error.name)}: ${toText(error.message)}`;
}

/** The text that `read` returns, if any. */
export function readable(read: () => string): string {
  try {
    return read();
  } catch {
    return "an error that cannot be read";
  }
}

export function toText(value: unknown): string {
  return typeof value === "string" ? value : String(value);
}

/** Characters of an error's message that are stored. */
export const LONGEST_MESSAGE = 4096;
/** Characters of a stack, with its causes, that are stored. */
export const LONGEST_STACK = 16_384;

/** The beginning of a long text. Redact secrets first: a part of a secret would not be found. */
export function shorten(text: string, most: number): string {
  if (text.length <= most) return text;
  return `${text.slice(0, most)}… (cut: it has ${text.length} characters)`;
}

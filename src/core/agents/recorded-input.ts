import { isLongerThan } from "./json-value.ts";

/** Characters of one text, and of the whole as JSON, up to which an input is recorded as it is. */
const LONGEST_TEXT = 32 * 1024;
const LONGEST = 512 * 1024;

/**
 * What a step was given, as people see it later: JSON that never fails. Replay does not use it, so what JSON cannot
 * represent is described, and long data is cut.
 */
export function toRecordedInput(input: unknown): unknown {
  let text: string | undefined;
  try {
    text = JSON.stringify(input, describe);
  } catch {
    return { unreadable: "it contains itself, or cannot be read" };
  }
  if (text === undefined) return null;
  const value: unknown = JSON.parse(text);
  if (!isLongerThan(LONGEST, value)) return value;
  return { shortened: true, length: text.length };
}

function describe(this: unknown, key: string, value: unknown): unknown {
  if (typeof value === "string") return value.length > LONGEST_TEXT ? cut(value) : value;
  if (typeof value === "bigint") return String(value);
  const given = (this as Record<string, unknown>)[key];
  if (ArrayBuffer.isView(given)) return `(${given.byteLength} bytes)`;
  return value;
}

function cut(text: string): string {
  return `${text.slice(0, LONGEST_TEXT)}… (${text.length - LONGEST_TEXT} more characters)`;
}

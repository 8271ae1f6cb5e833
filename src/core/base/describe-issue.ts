import type * as v from "valibot";

/**
 * The schema's own message, or what a value must be, phrased to follow its name: "must be a string".
 * valibot's default messages repeat the value, which may be a secret: they are replaced.
 */
export function describeIssue(issue: v.BaseIssue<unknown>): string {
  if (!isDefaultMessage(issue)) return issue.message;
  if (issue.received === "undefined") return "is required";
  const { type, requirement, expected } = issue as { requirement?: unknown } & typeof issue;
  const size = typeof issue.input === "string" ? "character" : "entry";
  if (type === "max_length") return `must have at most ${amount(requirement, size)}`;
  if (type === "min_length" || type === "length")
    return `must have ${type === "length" ? "" : "at least "}${amount(requirement, size)}`;
  if (type === "non_empty") return "must not be empty";
  if (type === "min_value") return `must be at least ${String(requirement)}`;
  if (type === "max_value") return `must be at most ${String(requirement)}`;
  if (type === "integer") return "must be a whole number";
  if (type === "finite") return "must be a finite number";
  if (type === "regex") return `must match ${expected}`;
  if (expected === "never") return "is not known";
  const format = FORMATS[type];
  if (format) return `must be ${format}`;
  return expected ? `must be ${toWords(expected)}` : "is not valid";
}

/** Whether valibot has written the message, as `Invalid type: Expected string but received "…"`. */
export function isDefaultMessage({ message, expected, received }: v.BaseIssue<unknown>): boolean {
  const end = `${expected ? `Expected ${expected} but r` : "R"}eceived ${received}`;
  return message.startsWith("Invalid ") && message.endsWith(end);
}

/** Our wording, such as "must be a number", also after a path inside the field. */
const CONTINUES = /^(\S+ )?(must|is|are|has|have|cannot|may) /;

/** One problem, prefixed with the name of its field: a schema's own message is used as is. */
export function describeProblem(name: string, problem: string): string {
  if (name === "") return problem.replace(/\.$/, "");
  return CONTINUES.test(problem) ? `${name} ${problem}` : `${name}: ${problem.replace(/\.$/, "")}`;
}

/** Maximum number of problems listed: after that, further ones add no information. */
export const MOST_TOLD = 20;

/** Problems as one text, the first twenty of them. */
export function listProblems(problems: readonly string[]): string {
  const more = problems.length - MOST_TOLD;
  return [...problems.slice(0, MOST_TOLD), ...(more > 0 ? [`and ${more} more`] : [])].join("; ");
}

/** A size as text: "1 character", "3 entries". */
export function amount(count: unknown, noun: "character" | "entry"): string {
  if (count === 1) return noun === "entry" ? "one entry" : "one character";
  return `${String(count)} ${noun === "entry" ? "entries" : "characters"}`;
}

/** `("a" | "b")` → `one of a, b`. */
export function toWords(expected: string): string {
  const choices = [...expected.matchAll(/"([^"]*)"/g)]
    .map(([, choice]) => choice)
    .filter((choice) => choice !== "");
  if (choices.length > 1) return `one of ${choices.join(", ")}`;
  if (choices.length === 1) return `${choices[0]}`;
  const kinds = expected
    .replace(/[()]/g, "")
    .split(" | ")
    .map((kind) => KINDS[kind] ?? `a ${kind}`);
  return kinds.join(" or ");
}

/** Formats of text, by valibot's and zod's names. */
export const FORMATS: Readonly<Record<string, string>> = {
  email: "an email address",
  url: "a URL",
  uuid: "a UUID",
  iso_date: "a date such as 2026-01-31",
  iso_timestamp: "an ISO 8601 timestamp",
  date: "a date such as 2026-01-31",
  datetime: "an ISO 8601 timestamp",
};

const KINDS: Readonly<Record<string, string>> = {
  ...{ Object: "an object", Array: "a list", null: "null" },
  ...{ object: "an object", record: "an object", array: "a list", int: "a whole number" },
};

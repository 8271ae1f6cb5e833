import type { StandardSchemaV1 } from "@standard-schema/spec";
import type * as v from "valibot";
import { amount, describeIssue, FORMATS, toWords } from "./describe-issue.ts";

type Issue = StandardSchemaV1.Issue;

/**
 * The schema's own message, or what a value must be, phrased to follow its name. The default messages of
 * libraries are replaced if they repeat the value: it may be a secret.
 */
export function describeStandardIssue(
  issue: Issue,
  { vendor, value }: { readonly vendor: string /** Path of the value. */; readonly value: unknown },
): string {
  if (vendor === "valibot") return describeIssue(issue as v.BaseIssue<unknown>);
  if (vendor === "zod") return describeZodIssue(issue, value);
  if (vendor === "arktype") return describeArkIssue(issue as ArkIssue);
  return describeUnknown(issue, value);
}

const REQUIRED = "is required";

interface ZodIssue extends Issue {
  readonly code?: string;
  readonly expected?: string;
  readonly origin?: string;
  readonly format?: string;
  readonly minimum?: unknown;
  readonly maximum?: unknown;
  readonly inclusive?: boolean;
  readonly exact?: boolean;
  readonly values?: readonly unknown[];
  readonly keys?: readonly string[];
}

/**
 * How zod's default messages start, by code. Those of other locales are used as they are: they do not repeat
 * the value.
 */
const ZOD_DEFAULTS: Readonly<Record<string, RegExp>> = {
  invalid_type: /^Invalid input: expected /,
  invalid_value: /^Invalid (input|option): expected /,
  invalid_format: /^Invalid (string: |email address$|URL$|UUID$|ISO date$|ISO datetime$)/,
  too_small: /^Too small: expected /,
  too_big: /^Too big: expected /,
  not_multiple_of: /^Invalid number: must be /,
  unrecognized_keys: /^Unrecognized key/,
  invalid_union: /^Invalid input$/,
  custom: /^Invalid input$/,
};

function describeZodIssue(issue: ZodIssue, value: unknown): string {
  const { message, code = "" } = issue;
  if (!ZOD_DEFAULTS[code]?.test(message)) return message;
  if (value === undefined) return REQUIRED;
  switch (code) {
    case "invalid_type":
      return `must be ${toWords(issue.expected ?? "valid")}`;
    case "invalid_value":
      return `must be ${(issue.values?.length ?? 0) > 1 ? "one of " : ""}${issue.values?.join(", ")}`;
    case "invalid_format":
      return message.startsWith("Invalid string: ")
        ? message.slice("Invalid string: ".length)
        : `must be ${FORMATS[issue.format ?? ""] ?? `a valid ${message.slice("Invalid ".length)}`}`;
    case "too_small":
      return describeSize(issue, issue.minimum, "least");
    case "too_big":
      return describeSize(issue, issue.maximum, "most");
    case "not_multiple_of":
      return message.slice("Invalid number: ".length);
    case "unrecognized_keys":
      return `has unknown keys: ${issue.keys?.join(", ")}`;
    default:
      return "is not valid";
  }
}

function describeSize(
  { origin, inclusive, exact }: ZodIssue,
  limit: unknown,
  bound: "least" | "most",
): string {
  const isNumber = origin !== "string" && origin !== "array" && origin !== "set";
  if (isNumber && inclusive) return `must be at ${bound} ${String(limit)}`;
  if (isNumber) return `must be ${bound === "least" ? "more" : "less"} than ${String(limit)}`;
  const noun = origin === "string" ? "character" : "entry";
  return `must have ${exact ? "" : `at ${bound} `}${amount(limit, noun)}`;
}

interface ArkIssue extends Issue {
  readonly code: string;
  /** What it must be, as text. */
  readonly expected: string;
  /** The value as quoted in default messages. */
  readonly actual: string;
  /** The message without the value's path. */
  readonly problem: string;
  readonly errors?: readonly ArkIssue[];
}

const NO_REASON = "valid according to an anonymous predicate";

function describeArkIssue(issue: ArkIssue): string {
  const { message, problem, code, errors = [] } = issue;
  if (!message.endsWith(problem)) return message;
  if (code === "required" && problem.endsWith(" (was missing)")) return REQUIRED;
  if (code === "intersection" && problem.startsWith(`(${issue.actual})`))
    return `must be ${errors.map(({ expected }) => expected).join(" and ")}`;
  if (code === "union") return describeArkUnion(issue);
  const { expected, actual } = issue;
  if (problem !== `must be ${expected}${actual && ` (was ${actual})`}`) return problem;
  return expected === NO_REASON ? "is not valid" : `must be ${expected}`;
}

/** A union's message includes the path and the value. */
function describeArkUnion({ problem, actual }: ArkIssue): string {
  const told = problem.slice(problem.indexOf("must be "));
  const end = ` (was ${actual})`;
  const text = told.endsWith(end) ? told.slice(0, -end.length) : told;
  return text.startsWith("must be ") && !text.includes("(was ") ? text : "is not valid";
}

/** The message of an unknown library is used if it does not repeat the value. */
function describeUnknown({ message }: Issue, value: unknown): string {
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  return value !== undefined && text.length > 2 && message.includes(text) ? "is not valid" : message;
}

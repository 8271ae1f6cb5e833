import * as v from "valibot";
import { ServiceError } from "../errors.ts";
import { findList } from "./find-list.ts";

/** Checks a value; throws `invalid_request` naming each field that is wrong. */
export function check<S extends v.GenericSchema>(
  schema: S,
  value: unknown,
  part: "path" | "query" | "body",
): v.InferOutput<S> {
  const list = part === "body" ? findList(schema, value) : undefined;
  if (list !== undefined) throw invalid(part, `${list || "the body"} must be an object`);
  const result = v.safeParse(schema, value);
  if (!result.success) throw invalid(part, describeIssues(result.issues, part));
  return result.output;
}

/** What is wrong, field by field. The values themselves are not repeated: one may be a secret. */
export function describeIssues(issues: readonly v.BaseIssue<unknown>[], root: string): string {
  const problems = issues.map((issue) => `${v.getDotPath(issue) ?? `the ${root}`} ${describe(issue)}`);
  return [...new Set(problems)].join("; ");
}

/** The error for a request that does not follow its route's schemas. */
export function invalid(part: string, detail: string): ServiceError {
  return new ServiceError("invalid_request", `The request's ${part} is not valid`, { detail: `${detail}.` });
}

/** valibot's own messages repeat what was received; our own start with "must". */
function describe(issue: v.BaseIssue<unknown>): string {
  if (issue.received === "undefined") return "is missing";
  if (issue.message.startsWith("must")) return issue.message;
  if (issue.type === "integer") return "must be a whole number";
  return issue.expected ? `must be ${toWords(issue.expected)}` : "is not valid";
}

function toWords(expected: string): string {
  if (expected === "Object") return "an object";
  if (expected === "Array") return "a list";
  if (expected.startsWith("(")) {
    return `one of ${expected.slice(1, -1).replaceAll('"', "").replaceAll(" | ", ", ")}`;
  }
  return /^[<>!]/.test(expected) ? expected.replace(/^[<>!=]+/, (sign) => `${sign} `) : `a ${expected}`;
}

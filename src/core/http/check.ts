import * as v from "valibot";
import { describeIssue, describeProblem, isDefaultMessage, listProblems } from "../base/describe-issue.ts";
import { ServiceError } from "../base/errors.ts";
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

/** Problems by field. The values are not repeated: one may be a secret. */
export function describeIssues(issues: readonly v.BaseIssue<unknown>[], root: string): string {
  const problems = issues.map((issue) =>
    describeProblem(v.getDotPath(issue) ?? `the ${root}`, describe(issue)),
  );
  return listProblems([...new Set(problems)]);
}

/** The error for a request that does not follow its route's schemas. */
export function invalid(part: "path" | "query" | "body" | "headers", detail: string): ServiceError {
  const verb = part === "headers" ? "are" : "is";
  return new ServiceError("invalid_request", `The request's ${part} ${verb} not valid`, {
    detail: `${detail}.`,
  });
}

function describe(issue: v.BaseIssue<unknown>): string {
  return issue.received === "undefined" && isDefaultMessage(issue) ? "is missing" : describeIssue(issue);
}

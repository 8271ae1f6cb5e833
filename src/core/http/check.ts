import * as v from "valibot";
import { describeIssue, describeProblem, isDefaultMessage, listProblems } from "../base/describe-issue.ts";
import { ServiceError } from "../base/errors.ts";
import { isUnknownMember, unknownMembers } from "../base/unknown-members.ts";

/** Checks a value; throws `invalid_request` naming each member that is wrong or that the schema does not know. */
export function check<S extends v.GenericSchema>(
  schema: S,
  value: unknown,
  part: "path" | "query" | "body",
): v.InferOutput<S> {
  const unknown = part === "path" ? [] : unknownMembers(schema, value);
  const result = v.safeParse(schema, value);
  if (result.success && unknown.length === 0) return result.output;
  const problems = [
    ...unknown.map(({ path, problem }) => describeProblem(path || `the ${part}`, problem)),
    ...problemsOf(result.issues ?? [], part),
  ];
  throw invalid(part, listProblems(problems));
}

/** Problems by field. The values are not repeated: one may be a secret. */
export function describeIssues(issues: readonly v.BaseIssue<unknown>[], root: string): string {
  return listProblems(problemsOf(issues, root));
}

function problemsOf(issues: readonly v.BaseIssue<unknown>[], root: string): string[] {
  const problems = issues
    .filter((issue) => !isUnknownMember(issue))
    .flatMap((issue) => insideOf(issue))
    .map(({ path, issue }) => describeProblem(path === "" ? `the ${root}` : path, describe(issue)));
  return [...new Set(problems)];
}

interface Place {
  readonly path: string;
  readonly issue: v.BaseIssue<unknown>;
}

/** What is wrong inside of a value that could be one of several kinds, where it is one of them: that one is meant. */
function insideOf(issue: v.BaseIssue<unknown>, parent = ""): Place[] {
  const path = [parent, v.getDotPath(issue) ?? ""].filter((part) => part !== "").join(".");
  const inside = issue.type === "union" ? (issue.issues ?? []).filter(({ path }) => path) : [];
  const others = (issue.issues?.length ?? 0) - inside.length;
  const isMeant = others === (issue.expected ?? "").split(" | ").length - 1;
  if (inside.length === 0 || !isMeant) return [{ path, issue }];
  return inside.flatMap((one) => insideOf(one, path));
}

/** The error for a request that does not follow its route's schemas. */
export function invalid(part: "path" | "query" | "body" | "headers", detail: string): ServiceError {
  const verb = part === "headers" ? "are" : "is";
  return new ServiceError("invalid_request", `The request's ${part} ${verb} not valid`, {
    detail: detail.endsWith("?") ? detail : `${detail}.`,
  });
}

function describe(issue: v.BaseIssue<unknown>): string {
  return issue.received === "undefined" && isDefaultMessage(issue) ? "is missing" : describeIssue(issue);
}

import type { StandardSchemaV1 } from "@standard-schema/spec";
import { describeStandardIssue } from "../base/describe-standard-issue.ts";
import type { MemberProblem } from "../base/unknown-members.ts";
import { isAboutUnknown } from "./unknown-in-schema.ts";

/** All that a schema refuses about a value, in the words of the service; the value, which may be secret, is not repeated. */
export function refusals(
  { vendor }: StandardSchemaV1["~standard"],
  value: unknown,
  issues: readonly StandardSchemaV1.Issue[] = [],
  unknown: readonly MemberProblem[] = [],
): readonly MemberProblem[] {
  const others = issues.filter((issue) => unknown.length === 0 || !isAboutUnknown(issue, vendor));
  return [
    ...unknown,
    ...others.map((issue) => {
      const path = Array.from(issue.path ?? [], (one) => (typeof one === "object" ? one.key : one));
      const refused = path.reduce<unknown>(
        (at, key) => (at as Record<PropertyKey, unknown> | undefined | null)?.[key],
        value,
      );
      const problem = describeStandardIssue(issue, { vendor, value: refused });
      return { path: path.map(String).join("."), problem };
    }),
  ];
}

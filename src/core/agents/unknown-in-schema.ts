import type { StandardSchemaV1 } from "@standard-schema/spec";
import type * as v from "valibot";
import { isUnknownMember, type MemberProblem, unknownMembers } from "../base/unknown-members.ts";
import { unknownByJsonSchema } from "./unknown-by-json-schema.ts";

/** Members that a schema of any library does not know: most libraries drop or accept them. */
export function unknownIn(schema: StandardSchemaV1, value: unknown): readonly MemberProblem[] {
  if (schema["~standard"].vendor === "valibot")
    return unknownMembers(schema as unknown as v.GenericSchema, value);
  return unknownByJsonSchema(schema, value);
}

/** Whether an issue is about a member that `unknownIn` reports. */
export function isAboutUnknown(issue: StandardSchemaV1.Issue, vendor: string): boolean {
  if (vendor === "valibot") return isUnknownMember(issue as v.BaseIssue<unknown>);
  if (vendor === "zod") return (issue as { code?: unknown }).code === "unrecognized_keys";
  return vendor === "arktype" && (issue as { problem?: unknown }).problem === "must be removed";
}

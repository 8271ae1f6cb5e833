import type { StandardSchemaV1 } from "@standard-schema/spec";
import type * as v from "valibot";
import type { MaybePromise } from "../base/maybe-promise.ts";
import { isUnknownMember, type MemberProblem, unknownMembers } from "../base/unknown-members.ts";

/**
 * Members that a schema of any library does not know: most libraries drop or accept them. Immediately for valibot; for
 * others it reads their JSON Schema, with code that is loaded on use.
 */
export function unknownIn(schema: StandardSchemaV1, value: unknown): MaybePromise<readonly MemberProblem[]> {
  if (schema["~standard"].vendor === "valibot")
    return unknownMembers(schema as unknown as v.GenericSchema, value);
  return import("./unknown-by-json-schema.ts").then((it) => it.unknownByJsonSchema(schema, value));
}

/** Whether an issue is about a member that `unknownIn` reports. */
export function isAboutUnknown(issue: StandardSchemaV1.Issue, vendor: string): boolean {
  if (vendor === "valibot") return isUnknownMember(issue as v.BaseIssue<unknown>);
  if (vendor === "zod") return (issue as { code?: unknown }).code === "unrecognized_keys";
  return vendor === "arktype" && (issue as { problem?: unknown }).problem === "must be removed";
}

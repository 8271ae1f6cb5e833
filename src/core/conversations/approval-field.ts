import type { AgentMethodField } from "../models/agent-method-field.ts";

/** The field of a question that is answered with yes or no, and perhaps a comment. */
export function approvalField(fields: readonly AgentMethodField[]): AgentMethodField | undefined {
  const [field, ...more] = fields.filter(({ name, required }) => name !== "comment" || required);
  return field?.field_type === "BooleanField" && more.length === 0 ? field : undefined;
}

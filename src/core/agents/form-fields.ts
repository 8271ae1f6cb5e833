import * as v from "valibot";
import {
  type AgentMethodField,
  AgentMethodFieldSchema,
  type FieldType,
} from "../models/agent-method-field.ts";
import type { FieldsInput } from "./define-agent.ts";

/** The parts of a valibot schema that matter for a form. */
interface SchemaNode {
  readonly type: string;
  readonly wrapped?: SchemaNode;
  readonly item?: SchemaNode;
  readonly options?: readonly unknown[];
  readonly pipe?: readonly { readonly type: string }[];
  readonly literal?: unknown;
}

const OPTIONAL = new Set(["optional", "exact_optional", "undefinedable", "nullable", "nullish"]);

/** A method's inputs as the fields of a form, whichever way they were declared. */
export function toFormFields(fields: FieldsInput): AgentMethodField[] {
  if (isList(fields)) return fields.map((field) => v.parse(AgentMethodFieldSchema, field));
  return Object.entries(fields.entries).map(([name, schema]) => toField(name, schema as v.GenericSchema));
}

function isList(fields: FieldsInput): fields is Extract<FieldsInput, readonly unknown[]> {
  return Array.isArray(fields);
}

function toField(name: string, schema: v.GenericSchema): AgentMethodField {
  let node = schema as unknown as SchemaNode;
  let required = true;
  while (OPTIONAL.has(node.type) && node.wrapped) {
    required = false;
    node = node.wrapped;
  }
  const choices = readChoices(node) ?? (node.item ? readChoices(node.item) : undefined);
  const field_type = toFieldType(node, choices !== undefined);
  return {
    name,
    type: node.type,
    field_type,
    description: v.getDescription(schema) ?? v.getDescription(node as unknown as v.GenericSchema) ?? null,
    choices: choices ?? null,
    default: readDefault(schema),
    widget: null,
    required,
  };
}

function toFieldType(node: SchemaNode, hasChoices: boolean): FieldType {
  const has = (action: string): boolean => node.pipe?.some((one) => one.type === action) ?? false;
  if (hasChoices) return node.item ? "MultipleChoiceField" : "ChoiceField";
  if (node.type === "boolean") return "BooleanField";
  if (node.type === "number") return has("integer") || has("safe_integer") ? "IntegerField" : "FloatField";
  if (node.type !== "string") return "JSONField";
  if (has("email") || has("rfc_email")) return "EmailField";
  if (has("iso_date")) return "DateField";
  if (has("iso_timestamp") || has("iso_date_time")) return "DateTimeField";
  return "CharField";
}

function readChoices(node: SchemaNode): string[] | undefined {
  if (node.type === "picklist" || node.type === "enum") return node.options?.map(String);
  if (node.type !== "union" && node.type !== "variant") return undefined;
  const literals = (node.options as readonly SchemaNode[]).map((one) => one.literal);
  return literals.every((literal) => typeof literal === "string") ? (literals as string[]) : undefined;
}

/** JSON can hold no other defaults; those of functions are made anew at each start. */
function readDefault(schema: v.GenericSchema): unknown {
  const value = (schema as unknown as { default?: unknown }).default;
  return value === undefined || typeof value === "function" ? null : value;
}

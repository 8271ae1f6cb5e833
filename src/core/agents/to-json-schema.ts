import { parseJson } from "../base/parse-json.ts";
import type { AgentMethodField } from "../models/agent-method-field.ts";
import { readFields } from "./fields.ts";
import type { FieldsInput, FieldsSchema } from "./fields-input.ts";
import { readJsonSchema } from "./read-json-schema.ts";

/** JSON Schema of an object, draft 2020-12. */
export interface ObjectJsonSchema {
  readonly type: "object";
  readonly [keyword: string]: unknown;
}

/** The inputs of a method as JSON Schema, as their library says it; a list of fields as its form. */
export function toJsonSchema(input: FieldsInput | undefined): ObjectJsonSchema {
  if (input === undefined || Array.isArray(input)) return formToJsonSchema(readFields(input).list);
  const { $schema: _, ...schema } = readJsonSchema(input as FieldsSchema) as Record<string, unknown>;
  return { ...schema, type: "object" };
}

/**
 * A form as JSON Schema. With `flat`, for clients whose forms have only texts, numbers, switches and choices: a field
 * of another kind is a text that contains JSON, which `readFlat` reads.
 */
export function formToJsonSchema(
  fields: readonly AgentMethodField[],
  { flat = false }: { readonly flat?: boolean } = {},
): ObjectJsonSchema {
  const required = fields.filter((field) => field.required).map(({ name }) => name);
  return {
    type: "object",
    properties: Object.fromEntries(fields.map((field) => [field.name, toProperty(field, flat)])),
    ...(required.length > 0 && { required }),
  };
}

/** The values of a flat form, with JSON in the place of the texts that contain it. */
export function readFlat(
  fields: readonly AgentMethodField[],
  values: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const json = new Set(fields.filter(({ field_type }) => field_type === "JSONField").map(({ name }) => name));
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      name,
      json.has(name) && typeof value === "string" ? parseJson(value, value) : value,
    ]),
  );
}

function toProperty(field: AgentMethodField, flat: boolean): Record<string, unknown> {
  const { description, default: value, field_type } = field;
  const isText = flat && field_type === "JSONField";
  return {
    ...toType(field, flat),
    ...(description !== null && { description: isText ? `${description} (JSON)` : description }),
    ...(value !== null && { default: isText ? JSON.stringify(value) : value }),
  };
}

function toType(field: AgentMethodField, flat: boolean): Record<string, unknown> {
  switch (field.field_type) {
    case "CharField":
      return { type: "string", ...(field.required && { minLength: 1 }) };
    case "IntegerField":
      return { type: "integer" };
    case "FloatField":
      return { type: "number" };
    case "BooleanField":
      return { type: "boolean" };
    case "ChoiceField":
      return { type: "string", ...toChoices(field, "oneOf") };
    case "MultipleChoiceField": {
      const items = toChoices(field, "anyOf");
      return {
        type: "array",
        items: "enum" in items ? { type: "string", ...items } : items,
        ...(field.required && { minItems: 1 }),
      };
    }
    case "FileField": {
      // What is sent: an upload, or a small content, becomes the file that it is.
      const one = {
        type: "object",
        description: "A file: the id of an upload, or the content in base64 with its name",
        properties: Object.fromEntries(
          ["upload", "name", "type", "data"].map((name) => [name, { type: "string" }]),
        ),
        anyOf: [{ required: ["upload"] }, { required: ["data"] }],
      };
      return field.type === "array" ? { type: "array", items: one } : one;
    }
    case "DateField":
      return { type: "string", format: "date" };
    case "DateTimeField":
      return { type: "string", format: "date-time" };
    case "EmailField":
      return { type: "string", format: "email" };
    case "JSONField":
      return flat ? { type: "string" } : {};
  }
}

/** Plain values where no choice has a text of its own. */
function toChoices({ choices }: AgentMethodField, keyword: "oneOf" | "anyOf"): Record<string, unknown> {
  const all = choices ?? [];
  if (all.every((one) => typeof one === "string")) return { enum: all };
  return {
    [keyword]: all.map((one) =>
      typeof one === "string" ? { const: one, title: one } : { const: one[0], title: one[1] },
    ),
  };
}

import * as v from "valibot";
import type { AgentMethodField } from "../models/agent-method-field.ts";
import { FileValueSchema } from "../models/file.ts";

/** The schema that validates the values of a list of form fields. */
export function schemaOfFields(
  fields: readonly AgentMethodField[],
): v.ObjectSchema<v.ObjectEntries, undefined> {
  return v.object(Object.fromEntries(fields.map((field) => [field.name, schemaOf(field)])));
}

function schemaOf(field: AgentMethodField): v.GenericSchema {
  const value = valueSchema(field);
  if (field.default !== null) return v.nullish(value, field.default as never);
  return field.required ? value : v.nullish(value, null);
}

function valueSchema(field: AgentMethodField): v.GenericSchema {
  switch (field.field_type) {
    case "CharField":
      return field.required ? v.pipe(v.string(), v.nonEmpty("must not be empty")) : v.string();
    case "IntegerField":
      return v.pipe(v.number(), v.integer("must be a whole number"));
    case "FloatField":
      return v.pipe(v.number(), v.finite());
    case "BooleanField":
      return v.boolean();
    case "ChoiceField":
      return choice(field);
    case "MultipleChoiceField":
      return field.required
        ? v.pipe(v.array(choice(field)), v.nonEmpty("must have at least one choice"))
        : v.array(choice(field));
    case "DateField":
      return v.pipe(v.string(), v.isoDate("must be a date such as 2026-01-31"));
    case "DateTimeField":
      return v.pipe(v.string(), v.check(isDateTime, "must be a time such as 2026-01-31T09:30:00Z"));
    case "EmailField":
      return v.pipe(v.string(), v.email("must be an email address"));
    case "FileField":
      return field.type === "array" ? v.array(FileValueSchema) : FileValueSchema;
    case "JSONField":
      return v.unknown();
  }
}

function choice(field: AgentMethodField): v.GenericSchema {
  const values = (field.choices ?? []).map((one) => (typeof one === "string" ? one : one[0]));
  return v.picklist(values, `must be one of ${values.join(", ")}`);
}

/**
 * Whether a synchronous valibot schema contains an asynchronous one, which types reject and which would
 * accept every value.
 */
export function hasAsyncInside(schema: unknown, seen = new Set<unknown>()): boolean {
  if (typeof schema !== "object" || schema === null || seen.has(schema)) return false;
  seen.add(schema);
  const node = schema as { async?: unknown } & Record<(typeof INSIDE)[number], unknown>;
  return INSIDE.flatMap((key) => partsOf(node[key])).some(
    (part) => (node.async === false && part.async === true) || hasAsyncInside(part, seen),
  );
}

/** The schemas and actions at one key: one, a list, or by name. */
function partsOf(value: unknown): { readonly async?: unknown }[] {
  if (typeof value !== "object" || value === null) return [];
  const parts: unknown[] = "kind" in value && typeof value.kind === "string" ? [value] : Object.values(value);
  return parts.filter((part) => typeof part === "object" && part !== null);
}

const INSIDE = ["entries", "wrapped", "item", "items", "options", "pipe", "key", "value", "rest"] as const;

/** With or without seconds and offset: forms send `2026-01-31T09:30`. */
function isDateTime(text: string): boolean {
  return /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}/.test(text) && !Number.isNaN(Date.parse(text.replace(" ", "T")));
}

import * as v from "valibot";
import { describeIssue, MOST_TOLD } from "../base/describe-issue.ts";
import {
  type AgentMethodField,
  type AgentMethodFieldInput,
  AgentMethodFieldSchema,
} from "../models/agent-method-field.ts";
import type { FieldsInput } from "./define-agent.ts";
import { schemaOfFields } from "./field-schema.ts";
import { toFormFields } from "./form-fields.ts";

export type CheckedFields =
  | {
      readonly ok: true;
      readonly values: Record<string, unknown>;
      /** The values as they were given, with defaults filled in: what is stored, and gives `values` again. */
      readonly stored: Record<string, unknown>;
    }
  /** What is wrong, by field name. */
  | { readonly ok: false; readonly problems: Record<string, string> };

/** The inputs of a method or a question: as a form, and as a check. */
export interface Fields {
  readonly list: readonly AgentMethodField[];
  check(given: Readonly<Record<string, unknown>>): CheckedFields;
}

const OF_METHODS = new WeakMap<object, Fields>();

/** The inputs of a method, read once: the definition of an agent does not change. */
export function fieldsOf(method: { readonly fields?: FieldsInput }): Fields {
  const known = OF_METHODS.get(method);
  if (known) return known;
  const fields = readFields(method.fields);
  OF_METHODS.set(method, fields);
  return fields;
}

/** Reads inputs as an agent declares them; throws where they are neither an object schema nor a list of fields. */
export function readFields(input: FieldsInput | undefined): Fields {
  if (input === undefined) return fieldsFrom([], v.object({}));
  if (isObjectSchema(input)) return fieldsFrom(toFormFields(input), input);
  if (!Array.isArray(input)) throw new TypeError("must be a valibot object schema or a list of fields");
  const list = readList(input as readonly AgentMethodFieldInput[]);
  return fieldsFrom(list, schemaOfFields(list));
}

function isObjectSchema(input: FieldsInput): input is v.ObjectSchema<v.ObjectEntries, undefined> {
  const looked = input as { kind?: unknown; entries?: unknown };
  return looked !== null && typeof looked === "object" && looked.kind === "schema" && "entries" in looked;
}

function readList(input: readonly AgentMethodFieldInput[]): AgentMethodField[] {
  const seen = new Set<string>();
  return input.map((one, at) => {
    const result = v.safeParse(AgentMethodFieldSchema, one);
    if (!result.success) throw new TypeError(`[${at}]: ${describeIssues(result.issues)}`);
    const field = result.output;
    if (seen.has(field.name)) throw new TypeError(`[${at}]: there are two fields named "${field.name}"`);
    seen.add(field.name);
    const needsChoices = field.field_type === "ChoiceField" || field.field_type === "MultipleChoiceField";
    if (needsChoices && !field.choices?.length) {
      throw new TypeError(`[${at}]: "${field.name}" is a ${field.field_type} and needs choices`);
    }
    return field;
  });
}

function fieldsFrom(
  list: readonly AgentMethodField[],
  schema: v.ObjectSchema<v.ObjectEntries, undefined>,
): Fields {
  const known = new Set(Object.keys(schema.entries));
  return {
    list,
    check(given) {
      const problems: Record<string, string> = {};
      const unknown = Object.keys(given).filter((name) => !known.has(name));
      for (const name of unknown.slice(0, MOST_TOLD))
        problems[name] = `is not a field; the fields are ${[...known].join(", ") || "none"}`;
      const result = v.safeParse(schema, given);
      for (const issue of result.issues ?? []) {
        const name = String(issue.path?.[0]?.key ?? "");
        problems[name] ??= describe(issue);
      }
      if (!result.success || Object.keys(problems).length > 0) return { ok: false, problems };
      return { ok: true, values: result.output, stored: withDefaults(list, given) };
    },
  };
}

function withDefaults(
  list: readonly AgentMethodField[],
  given: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const stored: Record<string, unknown> = { ...given };
  for (const field of list) {
    if (stored[field.name] === undefined && field.default !== null) stored[field.name] = field.default;
  }
  return stored;
}

function describe(issue: v.BaseIssue<unknown>): string {
  if (issue.received === "undefined") return "is required";
  const place = issue.path
    ?.slice(1)
    .map((one) => String(one.key))
    .join(".");
  const text = describeIssue(issue);
  return place ? `${place} ${text}` : text;
}

function describeIssues(issues: readonly v.BaseIssue<unknown>[]): string {
  return issues.map((issue) => `${v.getDotPath(issue) ?? ""} ${describe(issue)}`.trim()).join("; ");
}

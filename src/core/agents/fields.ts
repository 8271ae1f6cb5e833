import type { StandardSchemaV1 } from "@standard-schema/spec";
import * as v from "valibot";
import { describeIssue, describeProblem, listProblems, MOST_TOLD } from "../base/describe-issue.ts";
import { describeStandardIssue } from "../base/describe-standard-issue.ts";
import { andThen, type MaybePromise } from "../base/maybe-promise.ts";
import { unknownMembers } from "../base/unknown-members.ts";
import {
  type AgentMethodField,
  type AgentMethodFieldInput,
  AgentMethodFieldSchema,
} from "../models/agent-method-field.ts";
import { hasAsyncInside, schemaOfFields } from "./field-schema.ts";
import type { FieldsInput, FieldsSchema } from "./fields-input.ts";
import { createFill } from "./fill-defaults.ts";
import { toFormFields, withoutMadeDefaults } from "./form-fields.ts";
import { readJsonSchema } from "./read-json-schema.ts";

export type CheckedFields =
  | {
      readonly ok: true;
      readonly values: Record<string, unknown>;
      /**
       * The values as given, with defaults filled in: they are stored, and yield `values` again when parsed.
       */
      readonly stored: Record<string, unknown>;
    }
  /** Problems, by field name. */
  | { readonly ok: false; readonly problems: Record<string, string> };

/** The inputs of a method or a question: as a form, and as a check. */
export interface Fields {
  readonly list: readonly AgentMethodField[];
  /** Whether one of them is for files. */
  readonly hasFiles: boolean;
  /** Validates values: synchronously, unless the schema is asynchronous. */
  check(given: Readonly<Record<string, unknown>>): MaybePromise<CheckedFields>;
}

const OF_METHODS = new WeakMap<object, Fields>();
const OF_SCHEMAS = new WeakMap<FieldsSchema, Fields>();

/** The inputs of a method, read once: the definition of an agent does not change. */
export function fieldsOf(method: { readonly fields?: FieldsInput }): Fields {
  return remembered(OF_METHODS, method, () => readFields(method.fields));
}

/** Inputs that are already read, by the value that is passed in their place. */
const READ = new WeakMap<object, Fields>();

const UNKNOWN = new WeakMap<object, string>();

/**
 * Wraps inputs that are already read, so that they can be passed as an agent passes its own; `unknown` is what
 * `unknownInFields` said of those.
 */
export function asInput(fields: Fields, unknown?: string): FieldsInput {
  const input: AgentMethodFieldInput[] = [];
  READ.set(input, fields);
  if (unknown !== undefined) UNKNOWN.set(input, unknown);
  return input;
}

/**
 * Reads inputs as an agent declares them; throws a `TypeError` if they are neither an object schema nor a
 * list of fields.
 */
export function readFields(input: FieldsInput | undefined): Fields {
  if (input === undefined) return readFields([]);
  const read = READ.get(input);
  if (read) return read;
  if (isSchema(input)) return remembered(OF_SCHEMAS, input, () => ofSchema(input));
  if (!Array.isArray(input)) {
    throw new TypeError(
      "must be an object schema of valibot, zod 4, ArkType or another library with Standard Schema, or a list of fields",
    );
  }
  const list = readList(input as readonly AgentMethodFieldInput[]);
  return fieldsFrom(list, schemaOfFields(list));
}

/** The first name that a list of fields has and no field knows: `readFields` ignores it, as records may have it. */
export function unknownInFields(input: FieldsInput | undefined): string | undefined {
  if (!Array.isArray(input)) return undefined;
  for (let at = 0; at < input.length; at++) {
    // An agent's questions are asked often, with fields that are right.
    if (!hasOther(input[at])) continue;
    const [unknown] = unknownMembers(AgentMethodFieldSchema, input[at]);
    if (unknown) return `[${at}]${unknown.path === "" ? "" : `.${unknown.path}`} ${unknown.problem}`;
  }
  return UNKNOWN.get(input);
}

function hasOther(field: unknown): boolean {
  for (const name in field as object)
    if (!(name in AgentMethodFieldSchema.entries) && (field as Record<string, unknown>)[name] !== undefined)
      return true;
  return false;
}

/**
 * Problems as one text: the service's messages follow the field's name, a schema's own message is used as is.
 */
export function describeProblems(problems: Readonly<Record<string, string>>): string {
  return listProblems(Object.entries(problems).map(([name, problem]) => describeProblem(name, problem)));
}

/** Whether a list of fields has one for files. */
export function hasFiles(list: readonly AgentMethodField[]): boolean {
  return list.some(({ field_type }) => field_type === "FileField");
}

function remembered<K extends object>(known: WeakMap<K, Fields>, key: K, read: () => Fields): Fields {
  const found = known.get(key);
  if (found) return found;
  const fields = read();
  known.set(key, fields);
  return fields;
}

/** The schemas of some libraries are functions. */
function isSchema(input: unknown): input is FieldsSchema {
  if ((typeof input !== "object" && typeof input !== "function") || input === null) return false;
  const standard = (input as Partial<FieldsSchema>)["~standard"];
  return standard?.version === 1 && typeof standard.validate === "function";
}

function ofSchema(schema: FieldsSchema): Fields {
  if (schema["~standard"].vendor === "valibot" && hasAsyncInside(schema)) {
    throw new TypeError(
      "have an asynchronous check inside a synchronous schema, which valibot skips: use the schema whose name ends in Async, such as v.objectAsync",
    );
  }
  const list = toFormFields(readJsonSchema(schema));
  const hasDefaults = list.some((field) => field.default !== null);
  return fieldsFrom(
    hasDefaults ? withoutMadeDefaults(list, toFormFields(readJsonSchema(schema))) : list,
    schema,
  );
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
      throw new TypeError(`[${at}]: "${field.name}" is a ${field.field_type}, which needs choices`);
    }
    return field;
  });
}

function describeIssues(issues: readonly v.BaseIssue<unknown>[]): string {
  return issues.map((issue) => `${v.getDotPath(issue) ?? ""} ${describeIssue(issue)}`.trim()).join("; ");
}

function fieldsFrom(list: readonly AgentMethodField[], schema: FieldsSchema): Fields {
  const known = new Set(list.map(({ name }) => name));
  const { vendor } = schema["~standard"];
  const validate = (given: object): MaybePromise<StandardSchemaV1.Result<unknown>> => {
    const result = schema["~standard"].validate(given);
    // A promise may be from another realm or library.
    return "then" in result ? Promise.resolve(result) : result;
  };
  const fill = createFill(list, validate);
  return {
    list,
    hasFiles: hasFiles(list),
    check(given) {
      const problems = new Map<string, string>();
      const unknown = Object.keys(given).filter((name) => !known.has(name));
      for (const name of unknown.slice(0, MOST_TOLD))
        problems.set(name, `is not a field; the fields are ${[...known].join(", ") || "none"}`);
      return andThen(validate(given), (result): MaybePromise<CheckedFields> => {
        for (const issue of result.issues ?? []) {
          const path = Array.from(issue.path ?? [], (one) => (typeof one === "object" ? one.key : one));
          // It is reported by name above.
          if (path.length === 0 && unknown.length > 0) continue;
          const name = String(path[0] ?? "");
          if (!problems.has(name)) problems.set(name, describe(issue, { path, vendor, given }));
        }
        if (result.issues || problems.size > 0) return { ok: false, problems: Object.fromEntries(problems) };
        const values = result.value as Record<string, unknown>;
        return andThen(fill(given, values), (stored): CheckedFields => ({ ok: true, values, stored }));
      });
    },
  };
}

function describe(
  issue: StandardSchemaV1.Issue,
  { path, vendor, given }: { path: readonly PropertyKey[]; vendor: string; given: unknown },
): string {
  const value = path.reduce<unknown>(
    (at, key) => (at as Record<PropertyKey, unknown> | undefined)?.[key],
    given,
  );
  return describeProblem(
    path.slice(1).map(String).join("."),
    describeStandardIssue(issue, { vendor, value }),
  );
}

import { isDeepStrictEqual } from "node:util";
import type { AgentMethodField, FieldType } from "../models/agent-method-field.ts";
import type { JsonSchema } from "./read-json-schema.ts";

const FORMATS: Readonly<Record<string, FieldType>> = {
  email: "EmailField",
  date: "DateField",
  "date-time": "DateTimeField",
};

/** The properties of an object schema as the fields of a form; throws a `TypeError` if it has none. */
export function toFormFields(schema: JsonSchema): AgentMethodField[] {
  const { properties, required } = readObject(schema, schema);
  return Object.entries(properties).map(([name, property]) => {
    const { node, isNullable } = withoutNull(resolve(property, schema), schema);
    const value = node.default ?? null;
    const choices =
      readChoices(node) ??
      (typeof node.items === "object" ? readChoices(resolve(node.items, schema)) : undefined);
    return {
      name,
      type: typeof node.type === "string" ? node.type : choices ? "string" : null,
      field_type: isFile(node, schema) ? "FileField" : toFieldType(node, choices !== undefined),
      description: node.description ?? null,
      choices: choices ?? null,
      default: value,
      widget: null,
      required: required.has(name) && !isNullable && value === null,
    };
  });
}

/** The fields without defaults that differ in `again`: those are computed again for each job. */
export function withoutMadeDefaults(
  fields: readonly AgentMethodField[],
  again: readonly AgentMethodField[],
): AgentMethodField[] {
  return fields.map((field, at) =>
    isDeepStrictEqual(field.default, again[at]?.default) ? field : { ...field, default: null },
  );
}

interface ObjectParts {
  readonly properties: Readonly<Record<string, JsonSchema>>;
  readonly required: ReadonlySet<string>;
}

/** Reads an object, including one combined with `allOf`. */
function readObject(given: JsonSchema, root: JsonSchema): ObjectParts {
  const node = resolve(given, root);
  const parts = (node.allOf ?? []).map((one) => readObject(one, root));
  if (!node.properties && parts.length === 0) {
    throw new TypeError("must be an object schema that lists its properties, or a list of fields");
  }
  return {
    properties: Object.assign({}, ...parts.map(({ properties }) => properties), node.properties),
    required: new Set([...parts.flatMap(({ required }) => [...required]), ...(node.required ?? [])]),
  };
}

/** Follows references such as `#/$defs/Address`. */
function resolve(node: JsonSchema, root: JsonSchema): JsonSchema {
  let found = node;
  for (let hops = 0; found.$ref !== undefined && hops < 100; hops++) {
    const { $ref, ...beside } = found;
    const path = $ref.split("/").slice(1);
    const target = path.reduce<unknown>(
      (at, key) => (at as Record<string, unknown> | undefined)?.[key],
      root,
    );
    found = { ...(target as JsonSchema | undefined), ...beside };
  }
  return found;
}

/** The schema of a property without `null`. */
function withoutNull(node: JsonSchema, root: JsonSchema): { node: JsonSchema; isNullable: boolean } {
  const { type, enum: values, anyOf, oneOf, ...rest } = node;
  const branches = (anyOf ?? oneOf)?.map((one) => resolve(one, root));
  const types = Array.isArray(type) ? type.filter((one) => one !== "null") : undefined;
  const others = branches?.filter((one) => one.type !== "null" && one.const !== null);
  const isNullable =
    type === "null" ||
    (types !== undefined && types.length < type!.length) ||
    (others !== undefined && others.length < branches!.length) ||
    (values?.includes(null) ?? false);
  if (!isNullable) return { node, isNullable };
  const only = others?.length === 1 ? others[0] : undefined;
  return {
    isNullable,
    node: {
      ...only,
      ...rest,
      ...(type !== undefined && { type: types?.length === 1 ? types[0] : (types ?? type) }),
      ...(values && { enum: values.filter((one) => one !== null) }),
      ...(others && !only && { anyOf: others }),
    },
  };
}

const FILE = ["name", "sha256", "size", "type"];

/** Whether a value is a file, as `file()` describes it, or a list of files. */
function isFile(node: JsonSchema, root: JsonSchema): boolean {
  if (node.type === "array" && typeof node.items === "object") return isFile(resolve(node.items, root), root);
  return node.type === "object" && isDeepStrictEqual(Object.keys(node.properties ?? {}).sort(), FILE);
}

function toFieldType(node: JsonSchema, hasChoices: boolean): FieldType {
  if (hasChoices) return node.items ? "MultipleChoiceField" : "ChoiceField";
  if (node.type === "boolean") return "BooleanField";
  if (node.type === "integer") return "IntegerField";
  if (node.type === "number") return "FloatField";
  if (node.type !== "string") return "JSONField";
  return FORMATS[node.format ?? ""] ?? "CharField";
}

/** The allowed texts of a value, if it is an enumeration. */
function readChoices(node: JsonSchema): string[] | undefined {
  const values =
    node.enum ?? (node.const !== undefined ? [node.const] : (node.anyOf ?? node.oneOf)?.flatMap(constants));
  if (!values || values.length === 0) return undefined;
  return values.every((one) => typeof one === "string") ? (values as string[]) : undefined;
}

function constants({ const: value, enum: values }: JsonSchema): readonly unknown[] {
  return values ?? [value];
}

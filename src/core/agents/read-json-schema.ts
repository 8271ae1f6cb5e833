import { toJsonSchema } from "@valibot/to-json-schema";
import type * as v from "valibot";
import { messageOf } from "../base/error-text.ts";
import type { FieldsSchema } from "./fields-input.ts";
import { ownConverter } from "./own-json-schema.ts";

/** The keywords of JSON Schema that matter for a form. */
export interface JsonSchema {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | JsonSchema;
  readonly items?: boolean | JsonSchema;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly allOf?: readonly JsonSchema[];
  readonly format?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly $ref?: string;
}

/** The input of a schema as JSON Schema; throws a `TypeError` if its library cannot express it. */
export function readJsonSchema(schema: FieldsSchema): JsonSchema {
  const convert = findConverter(schema);
  if (!convert) {
    throw new TypeError(
      `need a JSON Schema for their form, and this ${schema["~standard"].vendor} schema has none: use valibot, zod 4.2 or later, ArkType 2.1 or later, another library with "~standard.jsonSchema", or a list of fields`,
    );
  }
  let converted: object;
  try {
    converted = convert();
  } catch (error) {
    throw new TypeError(
      `cannot be shown as a form because their schema has no JSON Schema: ${messageOf(error)}. Use simpler types, or a list of fields`,
      { cause: error },
    );
  }
  return converted as JsonSchema;
}

function findConverter(schema: FieldsSchema): (() => object) | undefined {
  if (schema["~standard"].vendor !== "valibot") return ownConverter(schema, "input");
  return () =>
    toJsonSchema(schema as unknown as v.GenericSchema, {
      target: "draft-2020-12",
      typeMode: "input",
      errorMode: "ignore",
      // A default that is a function is called again for each job.
      overrideSchema: ({ valibotSchema, jsonSchema }) =>
        typeof (valibotSchema as { default?: unknown }).default === "function"
          ? { ...jsonSchema, default: undefined }
          : undefined,
    });
}

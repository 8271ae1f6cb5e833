import type { StandardJSONSchemaV1 } from "@standard-schema/spec";
import { toJsonSchema } from "@valibot/to-json-schema";
import type * as v from "valibot";
import { messageOf } from "../base/error-text.ts";
import type { FieldsSchema } from "./fields-input.ts";

/** The keywords of JSON Schema that matter for a form. */
export interface JsonSchema {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
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

const DIALECT = "draft-2020-12";
/** zod's way to omit what JSON Schema cannot express. */
const LENIENT = { unrepresentable: "any" };

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

interface OwnMethods {
  toJsonSchema?(options: object): object;
  toJSONSchema?(options: object): object;
}

function findConverter(schema: FieldsSchema): (() => object) | undefined {
  const standard = schema["~standard"] as FieldsSchema["~standard"] & Partial<StandardJSONSchemaV1.Props>;
  const own = schema as OwnMethods;
  // ArkType's standard converter omits the default of a morph's input.
  if (standard.vendor === "arktype" && own.toJsonSchema)
    return () => own.toJsonSchema!({ fallback: (context: { base: object }) => context.base });
  const { jsonSchema } = standard;
  if (jsonSchema) return () => jsonSchema.input({ target: DIALECT, libraryOptions: LENIENT });
  if (standard.vendor === "valibot")
    return () =>
      toJsonSchema(schema as unknown as v.GenericSchema, {
        target: DIALECT,
        typeMode: "input",
        errorMode: "ignore",
        // A default that is a function is called again for each job.
        overrideSchema: ({ valibotSchema, jsonSchema }) =>
          typeof (valibotSchema as { default?: unknown }).default === "function"
            ? { ...jsonSchema, default: undefined }
            : undefined,
      });
  if (standard.vendor === "zod" && own.toJSONSchema)
    return () => own.toJSONSchema!({ target: DIALECT, io: "input", ...LENIENT });
  return undefined;
}

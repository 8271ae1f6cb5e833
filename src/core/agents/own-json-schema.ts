import type { StandardJSONSchemaV1, StandardSchemaV1 } from "@standard-schema/spec";

const DIALECT = "draft-2020-12";
/** zod's way to omit what JSON Schema cannot express. */
const LENIENT = { unrepresentable: "any" };

interface OwnMethods {
  toJsonSchema?(options: object): object;
  toJSONSchema?(options: object): object;
}

/**
 * How the library of a schema makes JSON Schema of what it takes or gives, where it can: zod from 4.2, ArkType from 2.1,
 * and each that has `~standard.jsonSchema`.
 */
export function ownConverter(schema: StandardSchemaV1, io: "input" | "output"): (() => object) | undefined {
  const standard = schema["~standard"] as StandardSchemaV1["~standard"] & Partial<StandardJSONSchemaV1.Props>;
  const own = schema as OwnMethods;
  // ArkType's standard converter omits the default of a morph's input.
  if (standard.vendor === "arktype" && io === "input" && own.toJsonSchema)
    return () => own.toJsonSchema!({ fallback: (context: { base: object }) => context.base });
  const { jsonSchema } = standard;
  if (jsonSchema) return () => jsonSchema[io]({ target: DIALECT, libraryOptions: LENIENT });
  if (standard.vendor === "zod" && own.toJSONSchema)
    return () => own.toJSONSchema!({ target: DIALECT, io, ...LENIENT });
  return undefined;
}

/** The JSON Schema that the library of a schema makes; nothing where it cannot. */
export function ownJsonSchema(schema: StandardSchemaV1, io: "input" | "output"): object | undefined {
  try {
    return ownConverter(schema, io)?.();
  } catch {
    return undefined;
  }
}

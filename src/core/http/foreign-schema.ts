import type { StandardSchemaV1 } from "@standard-schema/spec";
import * as v from "valibot";
import { inlinedJsonSchema } from "../agents/inlined-json-schema.ts";
import { shapeOf } from "../agents/shape.ts";
import { validateNow } from "../agents/validate-now.ts";

/**
 * A schema of any library as one of valibot, which requests are checked by: it refuses members that the schema does not
 * know, and its metadata has the JSON Schema for the document.
 */
export function toRequestSchema(schema: StandardSchemaV1, what: string): v.GenericSchema {
  if (isOwn(schema, what)) return schema;
  return v.pipe(
    v.unknown(),
    v.metadata({ jsonSchema: inlinedJsonSchema(schema, "input") }),
    v.rawTransform(({ dataset, addIssue, NEVER }) => {
      const result = validateNow(schema, dataset.value, what);
      if ("value" in result) return result.value;
      for (const { path, problem } of result.refused)
        addIssue({ message: problem, ...(path !== "" && { path: [toItem(path, dataset.value)] }) });
      return NEVER;
    }),
  );
}

/** A schema of any library as one of valibot, which answers are cleaned and described by. */
export function toAnswerSchema(schema: StandardSchemaV1, what: string): v.GenericSchema {
  if (isOwn(schema, what)) return schema;
  const jsonSchema = inlinedJsonSchema(schema, "output");
  return v.pipe(shapeOf(jsonSchema), v.metadata({ jsonSchema }));
}

/** The names of an object's members. */
export function namesOf(schema: v.GenericSchema): readonly string[] {
  const { entries } = schema as { entries?: object };
  const { jsonSchema } = v.getMetadata(schema) as { jsonSchema?: { properties?: object } };
  return Object.keys(entries ?? jsonSchema?.properties ?? {});
}

function isOwn(schema: StandardSchemaV1, what: string): schema is v.GenericSchema {
  if (schema["~standard"].vendor !== "valibot") return false;
  if ((schema as unknown as v.GenericSchema | v.GenericSchemaAsync).async)
    throw new TypeError(
      `${what}: its schema is asynchronous, and must be synchronous: do what takes time in the handler`,
    );
  return true;
}

/** The path of a value, as one item. */
function toItem(key: string, input: unknown): v.UnknownPathItem {
  return { type: "unknown", origin: "value", input, key, value: undefined };
}

import * as v from "valibot";
import type { JsonSchema } from "./read-json-schema.ts";

/**
 * The valibot schema with the members, types and choices of a JSON Schema without references, for code that reads schemas.
 * It does not decide what a value may be: the schema of which the JSON Schema was made does.
 */
export function shapeOf(node: JsonSchema): v.GenericSchema {
  const shape = plainShape(node);
  return node.description === undefined ? shape : v.pipe(shape, v.description(node.description));
}

/** The members of an object; those with a default have it in their metadata, as it may be of another type. */
export function entriesOf({ properties = {}, required = [] }: JsonSchema): v.ObjectEntries {
  const entries = Object.entries(properties).map(([key, node]): [string, v.GenericSchema] => {
    const shape = shapeOf(node);
    if ("default" in node) return [key, v.optional(v.pipe(shape, v.metadata({ fallback: node.default })))];
    return [key, required.includes(key) ? shape : v.optional(shape)];
  });
  return Object.fromEntries(entries);
}

function plainShape(node: JsonSchema): v.GenericSchema {
  const choices = "const" in node ? [node.const] : node.enum;
  if (choices) return v.picklist(choices as string[]);
  if (node.allOf) return v.looseObject(Object.assign({}, ...[node, ...node.allOf].map(entriesOf)));
  const options = node.anyOf ?? node.oneOf;
  if (options) return oneOf(options);
  if (Array.isArray(node.type)) return oneOf(node.type.map((type) => ({ ...node, type })));
  if (node.properties) return v.looseObject(entriesOf(node));
  if (typeof node.additionalProperties === "object")
    return v.record(v.string(), shapeOf(node.additionalProperties));
  if (node.type === "array")
    return v.array(typeof node.items === "object" ? shapeOf(node.items) : v.unknown());
  if (node.type === "boolean") return v.boolean();
  if (node.type === "number" || node.type === "integer") return v.number();
  return node.type === "string" ? v.string() : v.unknown();
}

/** Of some forms; of one that may be null. */
function oneOf(options: readonly JsonSchema[]): v.GenericSchema {
  const others = options.filter(({ type }) => type !== "null").map(shapeOf);
  const shape = others.length === 1 ? others[0]! : v.union(others);
  return others.length < options.length ? v.nullable(shape) : shape;
}

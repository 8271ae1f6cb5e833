import type { StandardSchemaV1 } from "@standard-schema/spec";
import { ownJsonSchema } from "./own-json-schema.ts";
import type { JsonSchema } from "./read-json-schema.ts";
import { partOf } from "./unknown-by-json-schema.ts";

type Json = Readonly<Record<string, unknown>>;

/** Keywords whose value is not a schema, and those whose members are. */
const VALUES = new Set(["default", "const", "enum", "examples", "required", "type"]);
const MAPS = new Set(["properties", "patternProperties"]);

/**
 * The JSON Schema that the library of a schema makes, with what it refers to in place of references; open where it refers
 * to itself, and where its library cannot express it. Objects that are sent may have no other members.
 */
export function inlinedJsonSchema(schema: StandardSchemaV1, io: "input" | "output"): JsonSchema & Json {
  const root = ownJsonSchema(schema, io) as Json | undefined;
  if (!root) return {};
  const inline = (node: unknown, inside: readonly unknown[], isClosed: boolean): unknown => {
    if (Array.isArray(node)) return node.map((one) => inline(one, inside, isClosed));
    if (typeof node !== "object" || node === null) return node;
    if (inside.includes(node)) return {};
    const { $schema: _dialect, $defs: _definitions, $ref, ...rest } = node as Json;
    const within = [...inside, node];
    const target = typeof $ref === "string" ? inline(partOf(root, $ref) ?? {}, within, isClosed) : {};
    const result: Record<string, unknown> = { ...(target as Json) };
    for (const [key, one] of Object.entries(rest)) {
      if (VALUES.has(key)) result[key] = one;
      else if (MAPS.has(key)) {
        const members = Object.entries(one as Json).map(([name, member]) => [
          name,
          inline(member, within, true),
        ]);
        result[key] = Object.fromEntries(members);
      }
      // The parts of an intersection have each other's members.
      else result[key] = inline(one, within, isClosed && key !== "allOf");
    }
    if (io === "input" && isClosed && "properties" in result && !("additionalProperties" in result))
      result.additionalProperties = false;
    return result;
  };
  return inline(root, [], true) as JsonSchema & Json;
}

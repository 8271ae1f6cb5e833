import { toJsonSchema } from "@valibot/to-json-schema";
import * as v from "valibot";
import type { Platform } from "../platform.ts";
import { isText, PART } from "./settings.ts";

type Json = Record<string, unknown>;

/** The JSON Schema of `deploy.yaml`, by which editors check and complete it, with the options of these platforms. */
export function editorSchema(platforms: readonly Pick<Platform<never>, "name" | "flags">[]): Json {
  const names = platforms.map(({ name }) => name);
  const owners = new Map<string, string[]>();
  const properties: Json = {};
  for (const [key, entry] of Object.entries(PART)) properties[key] = toProperty(entry);
  properties.platform = { type: "string", examples: names, description: "where to deploy to" };
  for (const { name, flags } of platforms) {
    for (const [key, entry] of Object.entries(flags.entries)) {
      if (key in PART) continue;
      const before = owners.get(key) ?? [];
      owners.set(key, [...before, name]);
      const one = toProperty(entry as v.GenericSchema);
      const description = `${[...before, name].join(", ")}: ${String(one.description ?? "")}`;
      // Platforms do not agree on the values of an option with the same name.
      properties[key] = before.length === 0 ? { ...one, description } : { description };
    }
  }
  const known = [...Object.keys(properties), "environments"];
  // The options of another platform, from a plugin, are not known here.
  const strict = (keys: readonly string[]) => ({
    if: { properties: { platform: { enum: names } }, required: ["platform"] },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    then: { propertyNames: { enum: keys } },
  });
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "deploy.yaml",
    description: "Settings of svc deploy",
    type: "object",
    properties: {
      ...properties,
      environments: {
        type: "object",
        description: "what differs by environment, by its name or by a pattern such as preview-*",
        additionalProperties: { type: ["object", "null"], properties, ...strict(Object.keys(properties)) },
      },
    },
    ...strict(known),
  };
}

function toProperty(entry: v.GenericSchema): Json {
  const { $schema: _, ...schema } = toJsonSchema(v.unwrap(asOptional(entry)), {
    errorMode: "ignore",
  }) as Json;
  const description = v.getDescription(entry as never) ?? schema.description;
  const type = isText(entry) && schema.type === "string" && !schema.enum ? ["string", "number"] : schema.type;
  return { ...schema, ...(type === undefined ? {} : { type }), ...(description ? { description } : {}) };
}

function asOptional(entry: v.GenericSchema): v.OptionalSchema<v.GenericSchema, undefined> {
  return (entry as { type: string }).type === "optional"
    ? (entry as v.OptionalSchema<v.GenericSchema, undefined>)
    : v.optional(entry);
}

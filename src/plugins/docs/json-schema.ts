import { isDeepStrictEqual } from "node:util";
import { toJsonSchema } from "@valibot/to-json-schema";
import * as v from "valibot";
import { COMPONENTS } from "./components.ts";

/** The direction of a schema: what clients send, or what they receive. */
export type Direction = "input" | "output";
export type JsonSchema = Record<string, unknown>;

const REF = "#/components/schemas/";

/** Name of a component: clients may omit values that they always receive, so the two directions differ. */
function componentName(name: string, direction: Direction): string {
  return direction === "input" && name in COMPONENTS ? `${name}Input` : name;
}

/**
 * Valibot schemas as JSON Schema (2020-12) with references to components. All of them are converted in one pass: each
 * converts all components, too, and a pass for each schema would keep the service busy for seconds.
 */
export class Conversion {
  readonly #converted: Readonly<Record<Direction, ReadonlyMap<v.GenericSchema, JsonSchema>>>;
  readonly #components = new Map<string, JsonSchema>();

  constructor(schemas: Readonly<Record<Direction, Iterable<v.GenericSchema>>>) {
    this.#converted = {
      input: this.#convert(schemas.input, "input"),
      output: this.#convert(schemas.output, "output"),
    };
  }

  /** A schema that was given for this direction. */
  of(schema: v.GenericSchema, direction: Direction): JsonSchema {
    return this.#converted[direction].get(schema)!;
  }

  /** The components that `document` refers to, and those that they refer to. */
  componentsOf(document: unknown): Record<string, JsonSchema> {
    const used = new Map<string, JsonSchema>();
    const visit = (value: unknown): void => {
      for (const name of references(value)) {
        const component = this.#components.get(name);
        if (!component || used.has(name)) continue;
        used.set(name, component);
        visit(component);
      }
    };
    visit(document);
    return Object.fromEntries([...used].sort(([one], [other]) => (one < other ? -1 : 1)));
  }

  #convert(given: Iterable<v.GenericSchema>, direction: Direction): Map<v.GenericSchema, JsonSchema> {
    const schemas = [...new Set(given)];
    const { prefixItems, $defs } = run(v.tuple(schemas), direction) as {
      prefixItems: JsonSchema[];
      $defs: Record<string, JsonSchema>;
    };
    for (const [name, definition] of Object.entries($defs)) {
      this.#components.set(componentName(name, direction), tidy(definition, direction) as JsonSchema);
    }
    return new Map(schemas.map((schema, at) => [schema, tidy(prefixItems[at], direction) as JsonSchema]));
  }
}

function run(schema: v.GenericSchema, direction: Direction): JsonSchema {
  return toJsonSchema(schema, {
    target: "draft-2020-12",
    typeMode: direction,
    // What JSON Schema cannot express, such as a check in code, is omitted.
    errorMode: "ignore",
    definitions: COMPONENTS as Record<string, v.GenericSchema>,
    // What clients send may have no other members, see `unknownMembers`.
    overrideSchema: ({ valibotSchema: { type }, jsonSchema }) =>
      direction === "input" && type === "object" ? { ...jsonSchema, additionalProperties: false } : undefined,
    overrideRef: ({ referenceId }) => REF + componentName(referenceId, direction),
  }) as unknown as JsonSchema;
}

function references(value: unknown): string[] {
  return [...JSON.stringify(value).matchAll(/"#\/components\/schemas\/([^"]+)"/g)].map((match) => match[1]!);
}

function tidy(node: unknown, direction: Direction): unknown {
  if (Array.isArray(node)) return node.map((one) => tidy(one, direction));
  if (typeof node !== "object" || node === null) return node;
  const { jsonSchema, propertyNames: _names, ...rest } = node as JsonSchema;
  if (typeof jsonSchema === "object") return { ...jsonSchema, ...numericDefault(rest.default) };
  const result = Object.fromEntries(Object.entries(rest).map(([key, one]) => [key, tidy(one, direction)]));
  if (direction === "output" && result.type === "object" && result.properties) requireDefaulted(result);
  return withItems(result);
}

/** A list of so many values of one kind says so: many tools do not know `prefixItems`, and want `items` of every list. */
function withItems({ prefixItems, ...schema }: JsonSchema): JsonSchema {
  if (!Array.isArray(prefixItems)) return schema;
  const [items, ...others] = prefixItems;
  if (others.some((one) => !isDeepStrictEqual(one, items))) return { ...schema, prefixItems, items: false };
  return { ...schema, items, maxItems: prefixItems.length };
}

/** A query's numbers arrive as text; their defaults are written as such. */
function numericDefault(value: unknown): JsonSchema {
  return typeof value === "string" ? { default: Number(value) } : {};
}

/** A response always includes values with a default. */
function requireDefaulted(object: JsonSchema): void {
  const properties = object.properties as Record<string, JsonSchema>;
  const required = new Set(object.required as string[] | undefined);
  for (const [name, property] of Object.entries(properties)) {
    if (!("default" in property)) continue;
    const { default: _default, ...rest } = property;
    properties[name] = rest;
    required.add(name);
  }
  object.required = Object.keys(properties).filter((name) => required.has(name));
}

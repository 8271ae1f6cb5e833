import type * as v from "valibot";
import { Conversion } from "../../src/plugins/docs/json-schema.ts";

interface Schema {
  readonly $ref?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly type?: string;
  readonly format?: string;
  readonly minimum?: number;
  readonly minItems?: number;
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

/** A small value that a schema takes: what must be there, and no more. */
export function sampleOf(schema: v.GenericSchema): unknown {
  const conversion = new Conversion({ input: [schema], output: [] });
  const converted = conversion.of(schema, "input");
  const components = conversion.componentsOf(converted) as Record<string, Schema>;
  const find = ({ $ref }: Schema): Schema | undefined => components[$ref?.split("/").at(-1) ?? ""];
  return toSample(converted as Schema, find);
}

function toSample(given: Schema, find: (schema: Schema) => Schema | undefined): unknown {
  const schema = find(given) ?? given;
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  if (schema.default !== undefined) return schema.default;
  if (schema.anyOf) return toSample(schema.anyOf[0]!, find);
  if (schema.type === "object") {
    const names = schema.required ?? [];
    return Object.fromEntries(names.map((name) => [name, toSample(schema.properties?.[name] ?? {}, find)]));
  }
  if (schema.type === "array") {
    return Array.from({ length: schema.minItems ?? 0 }, () => toSample(schema.items ?? {}, find));
  }
  if (schema.type === "integer" || schema.type === "number") return schema.minimum ?? 1;
  if (schema.type === "boolean") return true;
  if (schema.format === "uuid") return "00000000-0000-4000-8000-000000000000";
  return schema.format === "date-time" ? "2026-01-31T09:30:00Z" : "x";
}

import type * as v from "valibot";

interface SchemaNode {
  readonly type: string;
  readonly entries?: Readonly<Record<string, v.GenericSchema>>;
  readonly wrapped?: v.GenericSchema;
  readonly item?: v.GenericSchema;
  readonly pipe?: readonly v.GenericSchema[];
}

/** Path of the first list where the schema expects an object: valibot accepts it. */
export function findList(schema: v.GenericSchema, value: unknown): string | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { wrapped, item, entries, type } = schema as unknown as SchemaNode;
  if (wrapped) return findList(wrapped, value);
  if (item && Array.isArray(value)) {
    for (let at = 0; at < value.length; at++) {
      const found = findList(item, value[at]);
      if (found !== undefined) return join(String(at), found);
    }
    return undefined;
  }
  if (type !== "record" && !entries) return undefined;
  if (Array.isArray(value)) return "";
  for (const key in entries) {
    const found = findList(entries[key]!, (value as Record<string, unknown>)[key]);
    if (found !== undefined) return join(key, found);
  }
  return undefined;
}

function join(key: string, rest: string): string {
  return rest === "" ? key : `${key}.${rest}`;
}

import type * as v from "valibot";

interface SchemaNode {
  readonly type: string;
  readonly entries?: Readonly<Record<string, v.GenericSchema>>;
  readonly wrapped?: v.GenericSchema;
  readonly item?: v.GenericSchema;
  readonly pipe?: readonly v.GenericSchema[];
}

/** Path of the first list that stands where the schema wants an object: valibot lets it pass. */
export function findList(schema: v.GenericSchema, value: unknown, path = ""): string | undefined {
  const node = schema as unknown as SchemaNode;
  if (typeof value !== "object" || value === null) return undefined;
  if (node.wrapped) return findList(node.wrapped, value, path);
  if (node.item && Array.isArray(value)) {
    return firstOf(value.entries(), ([index, one]) => findList(node.item!, one, join(path, index)));
  }
  if (node.type !== "record" && !node.entries) return undefined;
  if (Array.isArray(value)) return path;
  return firstOf(Object.entries(node.entries ?? {}), ([key, entry]) =>
    findList(entry, (value as Record<string, unknown>)[key], join(path, key)),
  );
}

function firstOf<T>(items: Iterable<T>, find: (item: T) => string | undefined): string | undefined {
  for (const item of items) {
    const found = find(item);
    if (found !== undefined) return found;
  }
  return undefined;
}

function join(path: string, key: string | number): string {
  return path === "" ? String(key) : `${path}.${key}`;
}

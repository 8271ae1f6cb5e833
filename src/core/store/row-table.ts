import type { Entity, TableSpec } from "./store.ts";

/** A table of rows that are no entities: version 1, found by id alone, unless it says otherwise. */
export function rowTable<T extends Entity>(
  name: string,
  spec: Partial<Omit<TableSpec<T>, "name" | "entity">> = {},
): TableSpec<T> {
  return { name, version: 1, entity: false, index: () => ({}), facets: [], sorted: [], ...spec };
}

import type { TableName, TableSpec, Tables } from "./store.ts";

/** A table of rows that are no entities: version 1, found by id alone, unless it says otherwise. */
export function rowTable<K extends TableName>(
  name: K,
  spec: Partial<Omit<TableSpec<Tables[K]>, "name" | "entity">> = {},
): TableSpec<Tables[K]> {
  return { name, version: 1, entity: false, index: () => ({}), facets: [], sorted: [], ...spec };
}

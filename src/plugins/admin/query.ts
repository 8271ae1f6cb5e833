import * as v from "valibot";

/** A query parameter that may be missing; forms send empty text for a field that was not filled in. */
export function optionalText<S extends v.GenericSchema<string, unknown>>(schema: S) {
  return v.optional(v.union([schema, v.literal("")]));
}

/** The query of a list. `refresh` reloads a page by itself, see `respond.ts`. */
export function filterQuery<E extends v.ObjectEntries>(entries: E) {
  return v.object({ ...entries, refresh: v.optional(v.string()) });
}

type WithoutEmpty<T> = { [K in keyof T]: Exclude<T[K], ""> };

/** The query with empty texts taken as absent. */
export function withoutEmpty<T extends object>(query: T): WithoutEmpty<T> {
  const entries = Object.entries(query).filter(([, value]) => value !== "");
  return Object.fromEntries(entries) as WithoutEmpty<T>;
}

/** A path with a query string; parameters that are empty or absent are omitted. */
export function withQuery(
  path: string,
  ...parts: readonly Readonly<Record<string, string | number | undefined>>[]
): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(Object.assign({}, ...parts) as Record<string, unknown>)) {
    if (value !== undefined && value !== "") search.set(name, String(value));
  }
  return search.size > 0 ? `${path}?${search}` : path;
}

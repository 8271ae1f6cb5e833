/** A page of a list as the API returns it. */
export interface PageOf<T> {
  readonly items: readonly T[];
  readonly total: number;
  readonly limit: number;
  readonly skip: number;
  readonly has_next: boolean;
  readonly has_prev: boolean;
}

/** Adds the position of a page in its list. */
export function toPageOf<T>(
  items: readonly T[],
  { total, limit, skip }: { total: number; limit: number; skip: number },
): PageOf<T> {
  return { items, total, limit, skip, has_next: skip + items.length < total, has_prev: skip > 0 };
}

/** A page of a list as the API returns it. */
export interface PageOf<T> {
  readonly items: readonly T[];
  readonly total: number;
  readonly limit: number;
  readonly skip: number;
  readonly has_next: boolean;
  readonly has_prev: boolean;
  /** `after` of the next page, where the list has cursors. */
  readonly next_cursor?: string | null;
}

/** The cursor of a page, and that of the next one. */
interface Cursors {
  readonly after: string | undefined;
  readonly next: string | undefined;
}

/** Adds the position of a page in its list. */
export function toPageOf<T>(
  items: readonly T[],
  { total, limit, skip, cursors }: { total: number; limit: number; skip: number; cursors?: Cursors },
): PageOf<T> {
  if (cursors) {
    const { after, next } = cursors;
    const has_prev = skip > 0 || after !== undefined;
    return { items, total, limit, skip, has_next: next !== undefined, has_prev, next_cursor: next ?? null };
  }
  return { items, total, limit, skip, has_next: skip + items.length < total, has_prev: skip > 0 };
}

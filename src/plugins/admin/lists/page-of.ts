import type { AnswerOf } from "../answers/answer-of.ts";
import type { pageOf } from "../answers/entities.ts";
import { formatCount } from "../views/format.ts";

/** A page of a list as the API returns it. */
type PageOf<T> = Omit<AnswerOf<ReturnType<typeof pageOf>>, "items"> & { readonly items: readonly T[] };

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

/** The pager of a list: which entries the page has, and links to the pages before and after it, "" where there is none. */
export function pagerOf(
  { limit, skip, total }: { readonly limit: number; readonly skip: number; readonly total: number },
  to: (query: { skip: number | undefined }) => string,
) {
  const at = (skip: number) => to({ skip: skip || undefined });
  const [from, until] = [Math.min(skip + 1, total), Math.min(skip + limit, total)].map(formatCount);
  return {
    range: `${from}–${until} of ${formatCount(total)}`,
    previous: skip > 0 ? at(Math.max(0, skip - limit)) : "",
    next: skip + limit < total ? at(skip + limit) : "",
  };
}

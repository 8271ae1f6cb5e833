import * as v from "valibot";
import { parseJson } from "../base/parse-json.ts";
import type { ListQuery, Page, Position } from "../store/store.ts";
import { invalid } from "./check.ts";
import type { HttpEvent } from "./route.ts";

const PositionSchema = v.tuple([
  v.string(),
  v.union([v.string(), v.number(), v.boolean(), v.null()]),
  v.string(),
]);

/** Where the last page ended, in a query. */
export const cursorQuery = {
  after: v.optional(
    v.pipe(
      v.string(),
      v.maxLength(4000),
      v.description("The cursor of the last page: this one starts behind it. `skip` is 0 then."),
    ),
  ),
};

/** The position in an order as text that clients give back. */
export function toCursor(sort: string, { value, id }: Position): string {
  return Buffer.from(JSON.stringify([sort, value, id])).toString("base64url");
}

/** What a list returns behind a cursor. Refuses text that is none, and the cursor of another order. */
export function behindCursor(
  query: ListQuery & { readonly sort: string },
  after: string | undefined,
): ListQuery {
  if (after === undefined) return query;
  const found = parseJson(Buffer.from(after, "base64url").toString("utf8"));
  const read = v.safeParse(PositionSchema, found);
  if (!read.success)
    throw invalid("query", "after is not a cursor: give back what X-Next-Cursor of a page was");
  const [sort, value, id] = read.output;
  if (sort !== query.sort)
    throw invalid(
      "query",
      `after is a cursor of a list sorted by ${sort}, and this one is sorted by ${query.sort}`,
    );
  return { ...query, skip: 0, after: { value, id } };
}

/** Tells the client of a page how many match in all, and where the next page starts. */
export function announcePage(
  event: HttpEvent,
  sort: string,
  { total, next }: Omit<Page<unknown>, "items">,
): void {
  event.res.headers.set("x-total-count", String(total));
  if (next) event.res.headers.set("x-next-cursor", toCursor(sort, next));
}

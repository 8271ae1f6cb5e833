import type { Jobs } from "../../../core/entities/jobs.ts";
import type { ListQuery, Position } from "../../../core/store/store.ts";

/** Jobs whose costs are added up at most: each is read. */
const MOST = 5000;
/** Jobs read at a time. */
const PAGE = 500;

/** What the jobs of a query have cost together; `undefined` where they are too many to read. */
export async function sumCosts(
  jobs: Jobs,
  { where, search }: Pick<ListQuery, "where" | "search">,
): Promise<number | undefined> {
  const query = { where, search, sort: "created_at", limit: PAGE };
  let sum = 0;
  let after: Position | undefined;
  do {
    const page = await jobs.list({ ...query, after });
    if (page.total > MOST) return undefined;
    for (const { total_cost } of page.items) sum += total_cost;
    after = page.next;
  } while (after);
  // Without the noise of adding decimal fractions.
  return Number(sum.toPrecision(14));
}

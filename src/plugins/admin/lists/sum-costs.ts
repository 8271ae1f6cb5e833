import { exactSum } from "../../../core/base/exact-amount.ts";
import type { Jobs } from "../../../core/entities/jobs.ts";
import type { ListQuery } from "../../../core/store/store.ts";

/** What the jobs of a query have cost together. */
export async function sumCosts(
  jobs: Jobs,
  { where, search }: Pick<ListQuery, "where" | "search">,
): Promise<number> {
  return exactSum(Object.values(await jobs.costBy("agent_name", { where, search })));
}

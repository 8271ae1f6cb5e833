import type { StoredCase } from "../../../core/models/case.ts";
import type { SeenParts } from "../parts.ts";

/** Which open questions are listed. */
export interface InboxFilter {
  readonly job_id?: string | undefined;
  readonly assigned_to?: string | undefined;
}

export interface InboxQuery extends InboxFilter {
  readonly limit: number;
  readonly skip: number;
}

/** Open questions: those with a deadline first, the most urgent at the top; then the others, oldest first. */
export async function readInbox(
  { cases }: Pick<SeenParts, "cases">,
  { limit, skip, job_id, assigned_to }: InboxQuery,
): Promise<{ items: StoredCase[]; total: number }> {
  const where = { status: "awaiting", job_id, assigned_to };
  const urgent = await cases.list({
    where: { ...where, deadline: { gte: 0 } },
    sort: "deadline",
    limit,
    skip,
  });
  const rest = await cases.list({
    where: { ...where, deadline: null },
    sort: "created_at",
    limit: limit - urgent.items.length,
    skip: Math.max(0, skip - urgent.total),
  });
  return { items: [...urgent.items, ...rest.items], total: urgent.total + rest.total };
}

/** A question as the API returns it. */
export function toInboxItem(item: StoredCase) {
  const { id, job_id, name, description, question } = item;
  return { case_id: id, job_id, name, description, question };
}

/** The same, only with when it was asked. */
export function toInboxEntry({ id, question }: StoredCase) {
  return { case_id: id, asked_at: question?.asked_at ?? null };
}

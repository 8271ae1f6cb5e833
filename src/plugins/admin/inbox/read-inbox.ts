import type { StoredCase } from "../../../core/models/case.ts";
import type { Position } from "../../../core/store/store.ts";
import type { SeenParts } from "../parts.ts";

/** Questions that are read together where all of them are. */
const PORTION = 500;

/** Which open questions are listed. */
export interface InboxFilter {
  readonly job_id?: string | undefined;
  readonly assigned_to?: string | undefined;
}

export interface InboxQuery extends InboxFilter {
  readonly limit: number;
  readonly skip: number;
}

/** The order of the inbox: those with a deadline first, the most urgent at the top; then the others, oldest first. */
const ORDER = [
  { deadline: { gte: 0 }, sort: "deadline" },
  { deadline: null, sort: "created_at" },
] as const;

/** A page of the open questions. */
export async function readInbox(
  { cases }: Pick<SeenParts, "cases">,
  { limit, skip, job_id, assigned_to }: InboxQuery,
): Promise<{ items: StoredCase[]; total: number }> {
  const where = { status: "awaiting", job_id, assigned_to };
  const [first, second] = ORDER;
  const urgent = await cases.list({
    where: { ...where, deadline: first.deadline },
    sort: first.sort,
    limit,
    skip,
  });
  const rest = await cases.list({
    where: { ...where, deadline: second.deadline },
    sort: second.sort,
    limit: limit - urgent.items.length,
    skip: Math.max(0, skip - urgent.total),
  });
  return { items: [...urgent.items, ...rest.items], total: urgent.total + rest.total };
}

/** All open questions, in portions: none is repeated or skipped while others are answered. */
export async function* readOpen({ cases }: Pick<SeenParts, "cases">): AsyncGenerator<StoredCase[]> {
  for (const { deadline, sort } of ORDER) {
    let after: Position | undefined;
    do {
      const where = { status: "awaiting", deadline };
      const { items, next } = await cases.list({ where, sort, limit: PORTION, after, uncounted: true });
      yield items;
      after = next;
    } while (after);
  }
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

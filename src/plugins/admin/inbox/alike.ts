import type { StoredCase } from "../../../core/models/case.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import type { SeenParts } from "../parts.ts";
import { readInbox } from "./read-inbox.ts";

/** Questions that one form answers, and open ones that are compared. */
export const MOST_ALIKE = 100;
const COMPARED = 500;

/** An open question with the job that asks it. */
export interface OpenQuestion {
  readonly item: StoredCase;
  readonly job: StoredJob | undefined;
}

/**
 * What equal questions have in common: agent, fields, and name, else their text without its numbers; `undefined` where
 * none is open.
 */
export function kindOfQuestion({ item, job }: OpenQuestion): string | undefined {
  const { question } = item;
  if (!question || item.status !== "awaiting") return undefined;
  const { name, question: text, fields } = question;
  return JSON.stringify([
    job?.agent_name,
    name ?? null,
    name === undefined ? text.replace(/\d+/g, "#") : "",
    fields,
  ]);
}

/** The open questions that are equal to that of a case, itself first, then the most urgent ones. */
export async function readAlike(parts: SeenParts, of: StoredCase): Promise<OpenQuestion[]> {
  const { items } = await readInbox(parts, { limit: COMPARED, skip: 0 });
  const [first, ...others] = await withJobs(parts, [of, ...items.filter(({ id }) => id !== of.id)]);
  const kind = kindOfQuestion(first!);
  if (kind === undefined) return [];
  return [first!, ...others.filter((one) => kindOfQuestion(one) === kind)].slice(0, MOST_ALIKE);
}

/** The questions with their jobs; each is read once. */
export async function withJobs(
  { jobs }: Pick<SeenParts, "jobs">,
  items: readonly StoredCase[],
): Promise<OpenQuestion[]> {
  const ids = [...new Set(items.map(({ job_id }) => job_id))];
  const found = ids.length === 0 ? [] : (await jobs.list({ where: { id: ids }, limit: ids.length })).items;
  const byId = new Map(found.map((job) => [job.id, job]));
  return items.map((item) => ({ item, job: byId.get(item.job_id) }));
}

import type { StoredCase } from "../../../core/models/case.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import type { SeenParts } from "../parts.ts";
import { readOpen } from "./read-inbox.ts";

/** Questions that one form answers. */
export const MOST_ALIKE = 100;

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

/** Equal questions of which one form shows the first. */
export interface Alike {
  /** The first one is that which the others are compared with; none where it is no longer open. */
  readonly shown: readonly OpenQuestion[];
  /** All of them, with those that are shown. */
  readonly total: number;
  /** Case of the first that is not shown. */
  readonly next: string | undefined;
}

/**
 * The open questions that are equal to that of a case: itself first, then the most urgent ones. With `start`, where the
 * forms before this one began, they are those that follow: itself and what is less urgent, without the question of `start`.
 */
export async function readAlike(parts: SeenParts, of: StoredCase, start?: string): Promise<Alike> {
  const [first] = await withJobs(parts, [of]);
  const kind = kindOfQuestion(first!);
  if (kind === undefined) return { shown: [], total: 0, next: undefined };
  const shown = [first!];
  let [total, next]: [number, string | undefined] = [1, undefined];
  let follows = start === undefined;
  for await (const portion of readOpen(parts)) {
    for (const one of await withJobs(parts, portion)) {
      const { id } = one.item;
      follows ||= id === of.id;
      if (!follows || id === of.id || id === start || kindOfQuestion(one) !== kind) continue;
      total++;
      if (shown.length < MOST_ALIKE) shown.push(one);
      else next ??= id;
    }
  }
  return { shown, total, next };
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

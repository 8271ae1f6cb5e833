import type { Jobs } from "../../entities/jobs.ts";
import { firstLineOf } from "../../models/failure.ts";

const DAY = 86_400_000;
/** Days before the last one that it is compared with. */
const BEFORE = 7;
/** Failures of a known reason in a day that may be a growth. */
const LEAST = 5;
/** How many times more than in a day of the week before. */
const TIMES = 3;

/** A reason for which jobs fail now, and did not before, or fewer. */
export interface FailureTrend {
  readonly failure: string;
  readonly isNew: boolean;
  /** Jobs that failed in the last day. */
  readonly count: number;
  /** First line of the error of the first one of the day. */
  readonly error: string;
  readonly agent: string;
  readonly version: string | null;
  /** When that one failed, ISO 8601. */
  readonly since: string | null;
}

/** Reasons of failures that are new in the last day, or grow; those with most jobs first. */
export async function readTrends(jobs: Jobs, now: number): Promise<FailureTrend[]> {
  const count = (finished_at: { readonly gte: number; readonly lt?: number }) =>
    jobs.countBy("failure", { where: { status: "failed", finished_at } });
  const [recent, week, ever] = await Promise.all([
    count({ gte: now - DAY }),
    count({ gte: now - (BEFORE + 1) * DAY, lt: now - DAY }),
    count({ gte: 0, lt: now - DAY }),
  ]);
  const trends = Object.entries(recent).flatMap(([failure, count]) => {
    if (failure === "null" || count === 0) return [];
    const isNew = !ever[failure];
    const grows = count >= LEAST && count > (TIMES * (week[failure] ?? 0)) / BEFORE;
    return isNew || grows ? [{ failure, count, isNew }] : [];
  });
  trends.sort((a, b) => b.count - a.count || (a.failure < b.failure ? -1 : 1));
  const described = await Promise.all(
    trends.map(async ({ failure, ...trend }): Promise<FailureTrend | undefined> => {
      const where = { failure, finished_at: { gte: now - DAY } };
      const { items } = await jobs.list({ where, sort: "finished_at", limit: 1 });
      const [first] = items;
      if (!first) return undefined;
      const { agent_name: agent, agent_version: version, finished_at: since, error, stop_reason } = first;
      const line = firstLineOf(error) || (stop_reason ?? "no error was recorded").replaceAll("_", " ");
      return { ...trend, failure, agent, version, since, error: line };
    }),
  );
  return described.filter((trend) => trend !== undefined);
}

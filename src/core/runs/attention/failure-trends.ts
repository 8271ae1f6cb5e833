import type { Jobs } from "../../entities/jobs.ts";
import { shownLineOf } from "../../models/failure.ts";
import { countHeard, type Marks } from "./failure-marks.ts";

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
  /** `returned`: after it was resolved. */
  readonly state: "new" | "grows" | "returned";
  /** Jobs that failed in the last day. */
  readonly count: number;
  /** First line of the error of the first one of the day. */
  readonly error: string;
  readonly agent: string;
  readonly version: string | null;
  /** When that one failed, ISO 8601. */
  readonly since: string | null;
}

/**
 * Reasons of failures that are new in the last day, grow, or came back after they were resolved; those with most jobs
 * first. Those that are muted are not among them.
 */
export async function readTrends(jobs: Jobs, now: number, marks: Marks): Promise<FailureTrend[]> {
  const count = (finished_at: { readonly gte: number; readonly lt?: number }) =>
    jobs.countBy("failure", { where: { status: "failed", finished_at } });
  const [recent, week] = await Promise.all([
    countHeard(jobs, now - DAY, marks),
    count({ gte: now - (BEFORE + 1) * DAY, lt: now - DAY }),
  ]);
  const unknown = Object.keys(recent).filter((failure) => !week[failure] && !marks.has(failure));
  // Only whether there is one: there may be many.
  const earlier = await Promise.all(
    unknown.map((failure) => {
      const where = { failure, finished_at: { gte: 0, lt: now - DAY } };
      return jobs.ids({ where, sort: "created_at", limit: 1 });
    }),
  );
  const isNew = new Set(unknown.filter((_, at) => earlier[at]!.length === 0));
  const trends = Object.entries(recent).flatMap(([failure, count]) => {
    const grows = count >= LEAST && count > (TIMES * (week[failure] ?? 0)) / BEFORE;
    const state = marks.has(failure) ? "returned" : isNew.has(failure) ? "new" : grows ? "grows" : undefined;
    return state ? [{ failure, count, state } as const] : [];
  });
  trends.sort((a, b) => b.count - a.count || (a.failure < b.failure ? -1 : 1));
  const described = await Promise.all(
    trends.map(async ({ failure, ...trend }): Promise<FailureTrend | undefined> => {
      const where = { failure, finished_at: { gte: now - DAY } };
      const { items } = await jobs.list({ where, sort: "finished_at", limit: 1 });
      const [first] = items;
      if (!first) return undefined;
      const { agent_name: agent, agent_version: version, finished_at: since, error, stop_reason } = first;
      const line = shownLineOf(error) || (stop_reason ?? "no error was recorded").replaceAll("_", " ");
      return { ...trend, failure, agent, version, since, error: line };
    }),
  );
  return described.filter((trend) => trend !== undefined);
}

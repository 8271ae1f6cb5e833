import type { Jobs } from "../../../core/entities/jobs.ts";
import { shownLineOf } from "../../../core/models/failure.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import type { AnswerOf } from "../answers/answer-of.ts";
import type { FailuresSchema } from "../answers/entities.ts";

/** Reasons that are read; the rarest ones are only counted. */
const SHOWN = 50;
/** Jobs of a reason of which agents and versions are named. */
const NAMED = 20;

type Failures = AnswerOf<typeof FailuresSchema>;
/** Jobs that failed for one reason. */
export type FailureGroup = Failures["items"][number];

/** Failed jobs by reason, the most frequent first. `since`: only those that failed since then, milliseconds. */
export async function readFailures(
  { jobs }: { readonly jobs: Jobs },
  { since, limit = SHOWN }: { since?: number | undefined; limit?: number } = {},
): Promise<Failures> {
  const where = { status: "failed", finished_at: { gte: since ?? 0 } };
  const counts = Object.entries(await jobs.countBy("failure", { where })).filter(([id]) => id !== "null");
  counts.sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1));
  const items = await Promise.all(
    counts.slice(0, limit).map(async ([failure, count]): Promise<FailureGroup | undefined> => {
      // An index has them in the order in which they ended.
      const of = { failure, finished_at: where.finished_at };
      const read = async (sort: string, limit: number) => {
        const ids = await jobs.ids({ where: of, sort, limit });
        return (await Promise.all(ids.map((id) => jobs.find(id)))).filter((job) => job !== undefined);
      };
      const [newest, oldest] = await Promise.all([read("-finished_at", NAMED), read("finished_at", 1)]);
      const [job] = newest;
      if (!job) return undefined;
      const agents = new Map(
        newest.map(({ agent_name, agent_version }) => {
          const version = agent_version ?? null;
          return [`${agent_name}\n${version}`, { agent: agent_name, version }];
        }),
      );
      return {
        failure,
        error: shownLineOf(job.error),
        stop_reason: job.stop_reason,
        limit: limitOf(newest),
        count,
        first_at: oldest[0]?.finished_at ?? null,
        last_at: job.finished_at,
        agents: [...agents.values()],
      };
    }),
  );
  return {
    items: items.filter((group) => group !== undefined),
    total: counts.reduce((sum, [, count]) => sum + count, 0),
    reasons: counts.length,
  };
}

function limitOf(jobs: readonly StoredJob[]): number | null {
  const met = jobs.flatMap(({ stop_reason, job_context: { job_instructions: limits } }) => {
    const limit = stop_reason !== null && isLimit(stop_reason) ? limits?.[stop_reason] : null;
    return limit ?? [];
  });
  return met.length === 0 ? null : Math.max(...met);
}

/** Whether a job ended at a limit that a retry meets again. */
export function isLimit(reason: string | null): reason is "max_cost" | "max_duration" | "max_cases" {
  return reason === "max_cost" || reason === "max_duration" || reason === "max_cases";
}

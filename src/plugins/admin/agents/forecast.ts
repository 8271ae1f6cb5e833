import type { SeenParts } from "../parts.ts";

const LOOKED_AT = 50;

/** Duration and cost of an agent's last jobs. */
export interface Forecast {
  readonly jobs: number;
  /** Milliseconds. */
  readonly medianDuration: number;
  readonly longDuration: number;
  readonly medianCost: number;
  readonly highCost: number;
}

/** A forecast from the agent's last completed jobs; `undefined` if there are none. */
export async function readForecast(
  { jobs }: Pick<SeenParts, "jobs">,
  slug: string,
): Promise<Forecast | undefined> {
  const { items } = await jobs.list({ where: { agent_name: slug, status: "completed" }, limit: LOOKED_AT });
  const durations = items.map(
    (job) => Date.parse(job.finished_at ?? job.updated_at) - Date.parse(job.created_at),
  );
  const costs = items.map((job) => job.total_cost);
  if (items.length === 0) return undefined;
  return {
    jobs: items.length,
    medianDuration: quantile(durations, 0.5),
    longDuration: quantile(durations, 0.95),
    medianCost: quantile(costs, 0.5),
    highCost: quantile(costs, 0.95),
  };
}

/** The smallest value that at least this share of the values does not exceed. */
function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0;
}

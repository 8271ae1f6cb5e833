import { FAILED, RUNNING } from "../../../core/models/entity-status.ts";
import type { Store } from "../../../core/store/store.ts";
import type { AnswerOf } from "../answers/answer-of.ts";
import type { StatsSchema } from "../answers/entities.ts";
import type { SeenParts } from "../parts.ts";

/** System statistics, as the API returns them. */
export async function readStats({ jobs, cases }: Pick<SeenParts, "jobs" | "cases">, store: Store) {
  const [jobCounts, caseCounts, stats] = await Promise.all([
    jobs.countBy("status"),
    cases.countBy("status"),
    store.stats(),
  ]);
  const collections = ENTITY_TABLES.filter((name) => name in stats.tables).length;
  const health = store.health();
  return {
    jobs: toCounts(jobCounts),
    cases: toCounts(caseCounts),
    system: { database: stats.database, status: health.writable ? "healthy" : "unhealthy", collections },
    collections,
  };
}

const ENTITY_TABLES = ["Job", "Case"];

/** Sums up statuses as the statistics group them. */
function toCounts(byStatus: Readonly<Record<string, number>>): AnswerOf<typeof StatsSchema>["jobs"] {
  const sum = (statuses: readonly string[]) =>
    statuses.reduce((total, status) => total + (byStatus[status] ?? 0), 0);
  return {
    total: sum(Object.keys(byStatus)),
    running: sum(RUNNING),
    completed: byStatus.completed ?? 0,
    failed: sum(FAILED),
    // In an order that says nothing of jobs that the caller does not see.
    by_status: Object.fromEntries(Object.entries(byStatus).sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}

import type { StopReason } from "../../../core/models/job.ts";
import { SHOWN_STATES } from "../../../core/models/job-state.ts";
import type { ListQuery } from "../../../core/store/store.ts";
import type { SeenParts } from "../parts.ts";
import { type ListedState, statusIs } from "./list-query.ts";

/** Counts by what lists of jobs can be filtered by: each is what its filter finds. */
export type StateCounts = Readonly<Partial<Record<ListedState, number>>>;

/** How many of the jobs of a query are in each status and state: read from indexes. */
export async function countStates(
  { jobs, attention }: Pick<SeenParts, "jobs" | "attention">,
  query: Pick<ListQuery, "where" | "search">,
): Promise<StateCounts> {
  const { stop_reason } = (query.where ?? {}) as { readonly stop_reason?: StopReason };
  const count = async (state: ListedState, more: ListQuery["where"] = {}) => {
    const where = { ...query.where, ...statusIs(state, stop_reason), ...more };
    return (await jobs.list({ ...query, where, limit: 0 })).total;
  };
  const [statuses, waits, answers, holds, copies, stopped, stuck] = await Promise.all([
    jobs.countBy("status", query),
    jobs.countBy("waits_for", { ...query, where: { ...query.where, status: "in_progress" } }),
    count("awaiting"),
    count("held"),
    count("pulled"),
    count("parked"),
    attention.stuck().then((ids) => (ids.length === 0 ? 0 : count("stuck", { id: ids }))),
  ]);
  return {
    ...statuses,
    running: SHOWN_STATES.running.waits_for.reduce((sum, one) => sum + (waits[String(one)] ?? 0), 0),
    sleeping: waits.time ?? 0,
    waiting_for_event: waits.event ?? 0,
    waiting_for_child: waits.child ?? 0,
    chat: waits.message ?? 0,
    awaiting: answers,
    waiting_for_answer: answers,
    held: holds,
    pulled: copies,
    parked: stopped,
    queued: (statuses.stopped ?? 0) - stopped,
    stopping: statuses.cancelling ?? 0,
    stuck,
  };
}

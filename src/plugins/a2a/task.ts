import type { ShownJob } from "../../core/http/first-response.ts";
import { contextOf } from "./states.ts";
import { deliveryOf, type Json, resultOf, type TaskJob, toStatus } from "./updates.ts";

/** What a task shows. */
export type ShownTask = Pick<ShownJob, "asking" | "cases"> & { readonly job: TaskJob };

/** A job as a task, in the protocol's JSON: what its cases delivered, and its result, are artifacts. */
export function toTask({ base }: { readonly base: string }, { job, asking, cases }: ShownTask): Json {
  return {
    id: job.id,
    contextId: contextOf(job),
    status: toStatus(job, asking),
    artifacts: [...cases.flatMap((item) => deliveryOf(item, base)), ...resultOf(job, base)],
    history: [],
    metadata: { agent: job.agent_name, cost: job.total_cost },
  };
}

import { type AskingCase, openQuestions } from "../../core/runs/questions/open-questions.ts";
import type { A2aParts } from "./parts.ts";
import { contextOf } from "./states.ts";
import { deliveryOf, type Json, resultOf, type TaskJob, toStatus } from "./updates.ts";

/** Cases of a job whose deliveries are artifacts. */
const MOST_CASES = 100;

/** A job as a task, in the protocol's JSON. */
export async function toTask(parts: A2aParts, job: TaskJob, asking?: readonly AskingCase[]): Promise<Json> {
  return {
    id: job.id,
    contextId: contextOf(job),
    status: toStatus(job, asking ?? (await openQuestions(parts.cases, job))),
    artifacts: await toArtifacts(parts, job),
    history: [],
    metadata: { agent: job.agent_name, cost: job.total_cost },
  };
}

/** What the cases delivered, and the result. */
async function toArtifacts(parts: A2aParts, job: TaskJob): Promise<Json[]> {
  const where = { job_id: job.id };
  const { items } =
    job.case_count === 0
      ? { items: [] }
      : await parts.cases.list({ where, sort: "created_at", limit: MOST_CASES });
  const { base } = parts;
  return [...items.flatMap((item) => deliveryOf(item, base)), ...resultOf(job, base)];
}

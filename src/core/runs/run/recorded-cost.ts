import type { Jobs } from "../../entities/jobs.ts";
import { clean } from "./limits.ts";
import { RunRecord } from "./run-record.ts";

/** What a job has cost by its log: the job itself tells it only since something else of it was stored. */
export async function recordedCost(jobs: Jobs, jobId: string): Promise<number> {
  const entries = await jobs.log(jobId);
  return clean(RunRecord.read(entries.map(({ entry }) => entry)).spent);
}

import { setTimeout as delay } from "node:timers/promises";
import type { RequestParts } from "../runner-parts.ts";

/** Milliseconds that a suspended job may take until its handler waits for the same again. */
const PATIENCE = 5000;

/**
 * Does something that concerns a question of a job while its handler waits for the answer. A suspended job is resumed
 * first, and stays in memory meanwhile. One that does not come to its question in time, as no slot is free, the service
 * is paused or closes, or the code is another, is treated as one without a run.
 */
export async function whileAsked<T>(
  { runs, jobs, agents, scheduler, waker }: RequestParts,
  { jobId, caseId }: { readonly jobId: string; readonly caseId: string },
  work: () => Promise<T>,
): Promise<T> {
  const release = runs.keepInMemory(jobId);
  try {
    const job = runs.find(jobId) ? undefined : await jobs.find(jobId);
    if (job?.suspended && agents.of(job) && !scheduler.isPaused && !scheduler.isClosed) {
      const asked = waker.wakeJob(jobId).then(() => runs.find(jobId)?.questions.untilAsked(caseId));
      await Promise.race([asked, delay(PATIENCE, undefined, { ref: false })]);
    }
    return await work();
  } finally {
    release();
  }
}

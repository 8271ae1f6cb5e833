import type { Job } from "../core/models/job.ts";
import { JobFailedError } from "./client-error.ts";
import type { Http, RequestOptions } from "./http.ts";
import { Outage } from "./outage.ts";

/** Seconds for which one request waits for the end: proxies cut off longer ones. */
const WAIT = 25;

/**
 * The result of a job once it has ended, for days, across restarts of the service; rejects with `JobFailedError` if it
 * failed or was cancelled.
 */
export async function jobResult(http: Http, path: string, { signal }: RequestOptions): Promise<unknown> {
  const outage = new Outage(http.patience, signal);
  for (;;) {
    try {
      const headers = { prefer: `wait=${WAIT}` };
      const asked = Date.now();
      const job = await http.json<Job>(`${path}/result`, { headers, signal, tries: 1, timeout: WAIT + 15 });
      outage.over();
      if (job.status === "completed") return job.result;
      if (hasEnded(job)) throw new JobFailedError({ ...job, status: job.status as "failed" });
      // A service that closes answers early.
      if (Date.now() - asked < 1000) await outage.pause();
    } catch (error) {
      if (error instanceof JobFailedError) throw error;
      await outage.wait(error);
    }
  }
}

export function hasEnded({ status }: { readonly status: string }): boolean {
  return status === "completed" || status === "failed" || status === "cancelled";
}

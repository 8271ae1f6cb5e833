import type { Cases } from "../../entities/cases.ts";
import type { Jobs } from "../../entities/jobs.ts";

/** What `job.read()` and `item.read()` of a job's handler read. */
export function readsOf({ jobs, cases }: { readonly jobs: Jobs; readonly cases: Cases }, jobId: string) {
  return {
    readJob: async () => jobs.show(await jobs.get(jobId)),
    readCase: (id: string) => cases.get(id),
  };
}

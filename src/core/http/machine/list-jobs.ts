import type { JobResponse } from "../../models/job-response.ts";
import type { HttpEvent } from "../route.ts";
import type { MachineParts } from "./parts.ts";
import type { JobsQuery } from "./schemas.ts";

/** A page of jobs, newest first; the number of all that match goes into `X-Total-Count`. */
export async function listJobs(
  { jobs, runner }: Pick<MachineParts, "jobs" | "runner">,
  { query, agent, event }: { query: JobsQuery; agent?: string; event: HttpEvent },
): Promise<JobResponse[]> {
  const { limit, skip, ...where } = query;
  const page = await jobs.list({ where: { agent_name: agent, ...where }, limit, skip });
  event.res.headers.set("x-total-count", String(page.total));
  return page.items.map((job) => runner.describe(job));
}

import type { ListedJob } from "../../models/listed-job.ts";
import type { HttpEvent } from "../route.ts";
import type { MachineParts } from "./parts.ts";
import type { JobsQuery } from "./schemas.ts";

/** A page of jobs, newest first; the number of all that match goes into `X-Total-Count`. */
export async function listJobs(
  { jobs, runner }: Pick<MachineParts, "jobs" | "runner">,
  { query, agent, event }: { query: JobsQuery; agent?: string; event: HttpEvent },
): Promise<ListedJob[]> {
  const { limit, skip, ...where } = query;
  const page = await jobs.list({ where: { agent_name: agent, ...where }, limit, skip });
  event.res.headers.set("x-total-count", String(page.total));
  return page.items.map((job) => {
    const { agent_name, created_at } = job;
    return { ...runner.describe(job), agent_name, created_at };
  });
}

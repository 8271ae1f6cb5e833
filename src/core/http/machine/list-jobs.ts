import { inState, shownStateOf } from "../../models/job-state.ts";
import type { ListedJob } from "../../models/listed-job.ts";
import { hasTag } from "../../models/tags.ts";
import { announcePage, behindCursor } from "../cursor.ts";
import type { HttpEvent } from "../route.ts";
import type { MachineParts } from "./parts.ts";
import type { JobsQuery } from "./schemas.ts";

const sort = "-created_at";

/** A page of jobs, newest first. */
export async function listJobs(
  { jobs, runner }: Pick<MachineParts, "jobs" | "runner">,
  { query, agent, event }: { query: JobsQuery; agent?: string; event: HttpEvent },
): Promise<ListedJob[]> {
  const { limit, skip, after, state, tag, ...given } = query;
  const tags = tag === undefined ? undefined : hasTag(tag);
  const where = { agent_name: agent, tags, ...(state === undefined ? given : inState(state, given)) };
  const asked = { where, sort, limit, skip };
  const page = await jobs.list(behindCursor(asked, after));
  announcePage(event, sort, page);
  return page.items.map((job) => {
    const { agent_name, created_at } = job;
    return {
      ...runner.describe(job),
      agent_name,
      state: shownStateOf(job),
      tags: job.tags ?? [],
      created_at,
    };
  });
}

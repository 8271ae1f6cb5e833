import type { StoredCase } from "../../../core/models/case.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import type { SeenParts } from "../parts.ts";
import { entityPiece, pathTo, timePiece } from "../views/pieces.ts";

const MOST = 10;

/** The newest changes of jobs and cases, newest first. */
export async function readRecent(parts: Pick<SeenParts, "jobs" | "cases">) {
  return { items: (await newest(parts)).map(toRecentRow) };
}

/** The same as lines of a list. */
export async function recentLines(parts: Pick<SeenParts, "jobs" | "cases">, now: Date) {
  return (await newest(parts)).map((item) => toRecentLine(item, now));
}

async function newest({
  jobs,
  cases,
}: Pick<SeenParts, "jobs" | "cases">): Promise<(StoredJob | StoredCase)[]> {
  const query = { sort: "-updated_at", limit: MOST };
  const [newJobs, newCases] = await Promise.all([jobs.list(query), cases.list(query)]);
  const items = [...newJobs.items, ...newCases.items];
  items.sort((a, b) => (a.updated_at < b.updated_at ? 1 : a.updated_at > b.updated_at ? -1 : 0));
  return items.slice(0, MOST);
}

const isCase = (item: StoredJob | StoredCase): item is StoredCase => "job_id" in item;

function toRecentRow(item: StoredJob | StoredCase) {
  const { id, name, status, created_at, updated_at } = item;
  const change = { id, name, status, created_at, updated_at };
  if (isCase(item)) return { type: "case" as const, ...change, job_id: item.job_id };
  return { type: "job" as const, ...change, agent_name: item.agent_name };
}

function toRecentLine(item: StoredJob | StoredCase, now: Date) {
  const isOfCase = isCase(item);
  return {
    name: item.name,
    href: pathTo(isOfCase ? "cases" : "jobs", item.id),
    sub: isOfCase ? `Case of ${item.job_id}` : `Job · ${item.agent_name}`,
    status: entityPiece(item).toString(),
    time: timePiece(item.updated_at, now).toString(),
  };
}

import type { AgentRegistry } from "../../../core/agents/registry.ts";
import type { Caller } from "../../../core/audit/caller.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import { StopReasonSchema, type StoredJob } from "../../../core/models/job.ts";
import { JobRowSchema } from "../answers/entities.ts";
import type { AdminParts, SeenParts } from "../parts.ts";
import { withoutEmpty } from "../query.ts";
import { toViewLinks } from "../saved-views/routes.ts";
import { offeredTo } from "../viewer.ts";
import { toLabel } from "../views/format.ts";
import { agentOptions } from "./agent-options.ts";
import { countStates } from "./count-states.ts";
import { readBeside } from "./failed-cases.ts";
import { type JobsQuery, JobsQuerySchema, toJobsListQuery } from "./list-query.ts";
import { type ListOf, listRoutes } from "./list-routes.ts";
import { toJobLine, toJobRow } from "./rows.ts";
import { sumCosts } from "./sum-costs.ts";

/** The list of jobs. */
export function jobsListRoutes(parts: AdminParts): RouteDefinition[] {
  return listRoutes<StoredJob, JobsQuery>(parts, {
    kind: "jobs",
    title: "Jobs",
    description:
      "Filters combine. `agent_name` is a part of the agent's slug, `status` is a status, or what a job does: `running`, `sleeping`, `waiting_for_event`, `waiting_for_child`, `chat`, `waiting_for_answer`, `held` (which `awaiting` does not include), `queued`, `parked`, `stopping`, or `stuck`, of those that run; `stop_reason` is why they ended or are held, `parent_id` the id of the job that started them; `search` matches id, name, the first line of the error and the beginning of the input (its texts and numbers), in an encrypted store only id and name (`searched` says so); `tag` is a whole tag, and `started_by` who started them. `failure` is a reason of `/admin/api/failures`; `since` and `until` are about the creation, `ended_since` about the end: times or days that begin in the time zone `zone` (UTC by default); `min_duration` is in seconds; `min_runs` is how often the job's handler has started, also when it resumed.",
    schema: JobsQuerySchema,
    rowSchema: JobRowSchema,
    seen: (seen) => jobsList(seen, parts),
  });
}

function jobsList(parts: SeenParts, { views }: Pick<AdminParts, "views">): ListOf<StoredJob, JobsQuery> {
  return {
    kind: "jobs",
    title: "Jobs",
    table: parts.jobs,
    count: (query) => countStates(parts, query),
    filters: FILTERS,
    filterLabels: {
      ...{ search: "Search", agent_name: "Agent", stop_reason: "Reason", parent_id: "Parent" },
      ...{
        tag: "Tag",
        started_by: "Started by",
        failure: "Failure",
        since: "Created from",
        until: "Created before",
        ended_since: "Ended from",
        zone: "Days in",
      },
      ...{ min_cost: "Cost from", min_duration: "Seconds from", min_runs: "Starts from" },
    },
    columns: [
      { label: "Status", key: "status" },
      { label: "Name", key: "name", style: "main" },
      { label: "Agent", key: "agent_name", style: "wide agent c-of" },
      { label: "Cases", key: "case_count", style: "num wide c-count" },
      { label: "Cost", key: "total_cost", style: "num wide c-cost" },
      { label: "Duration", key: "duration", style: "num wide c-took" },
      { label: "Created", key: "created_at", or: { label: "Changed", key: "updated_at" } },
    ],
    toListQuery: (query) => toJobsListQuery(parts, query),
    readBeside: (jobs) =>
      readBeside(
        parts,
        jobs.map(({ id }) => id),
      ),
    toRow: toJobRow,
    toLine: toJobLine,
    cost: async (query) =>
      withoutEmpty(query).tag === undefined
        ? undefined
        : sumCosts(parts.jobs, await toJobsListQuery(parts, query)),
    selects: (query) => [
      {
        name: "agent_name",
        label: "Agent",
        options: agentOptions(parts, withoutEmpty(query).agent_name),
      },
      { name: "stop_reason", label: "Reason", options: REASONS },
    ],
    inputs: [
      { name: "since", label: "Created from", type: "date" },
      { name: "until", label: "Created before", type: "date" },
      { name: "ended_since", label: "Ended from", type: "date" },
      { name: "tag", label: "Tag", type: "text" },
      { name: "started_by", label: "Started by", type: "text" },
      { name: "min_cost", label: "Cost from", type: "number" },
      { name: "min_duration", label: "Seconds from", type: "number" },
      { name: "min_runs", label: "Starts from", type: "number" },
    ],
    // They name what their makers look for: for people who see everything.
    ...(parts.caller.sight === undefined && {
      views: (query: JobsQuery) => toViewLinks({ views }, query),
    }),
    startable: startable(parts.agents, parts.caller),
  };
}

const FILTERS = [
  ...(["search", "agent_name", "stop_reason", "parent_id", "failure", "tag", "started_by"] as const),
  ...(["since", "until", "ended_since", "zone", "min_cost", "min_duration", "min_runs"] as const),
] as const;

const REASONS = [
  { value: "", label: "Any reason" },
  ...StopReasonSchema.options.map((value) => ({ value, label: toLabel(value) })),
];

/** Buttons that start a job: one for a single agent, else a menu to choose one. */
export function startable(
  agents: AgentRegistry,
  caller: Caller,
): readonly { href: string; label: string; style: string }[] {
  if (!offeredTo(caller).start) return [];
  const [first, second] = agents.list();
  if (!first) return [];
  if (second) return [{ href: "/admin/agents", label: "Start a job", style: "main" }];
  return [{ href: `/admin/agents/${first.slug}/start`, label: "Start a job", style: "main" }];
}

import { defineRoute, type RouteDefinition } from "../../../core/http/route.ts";
import type { AdminParts } from "../parts.ts";
import { withoutEmpty } from "../query.ts";
import { resourceRoutes } from "../resource-routes.ts";
import { type Resource, renderFragment } from "../respond.ts";
import { startable } from "../views/startable.ts";
import { IdsQuerySchema, readIds } from "./ids-query.ts";
import { type JobsQuery, JobsQuerySchema, toJobsListQuery } from "./list-query.ts";
import { type Column, toListView } from "./list-view.ts";
import { toPageOf } from "./page-of.ts";
import { toJobLine, toJobRow } from "./rows.ts";

const COLUMNS: readonly Column[] = [
  { label: "Status", key: "status" },
  { label: "Name", key: "name" },
  { label: "Agent", key: "agent_name", style: "wide" },
  { label: "Cases", key: "case_count", style: "num wide" },
  { label: "Cost", key: "total_cost", style: "num wide" },
  { label: "Took", key: "duration", style: "num wide" },
  { label: "Changed", key: "updated_at", style: "wide" },
  { label: "Created", key: "created_at" },
];

/** The list of jobs: page, API, single rows. */
export function jobsListRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    ...resourceRoutes(parts, {
      page: ["/admin/jobs", "Jobs page"],
      api: [
        "/admin/api/jobs",
        "List jobs",
        "Filters combine. `agent_name` is a part of the agent's slug; `search` looks in id and name.",
      ],
      query: JobsQuerySchema,
      answer: "A page of jobs",
      resource: ({ query }) => jobsResource(parts, query),
    }),
    defineRoute({
      method: "GET",
      path: "/admin/api/jobs/rows",
      auth: "session",
      summary: "Rows of the jobs table",
      tag: "Admin",
      hidden: true,
      query: IdsQuerySchema,
      responses: { 200: { description: "Table rows", contentType: "text/html" } },
      handler: async ({ query, event }) => {
        const { items } = await parts.jobs.list({ where: { id: readIds(query) }, limit: 100 });
        const context = { now: parts.clock(), currency: parts.options.currency };
        const rows = items.map((job) => toJobLine(job, context));
        return renderFragment(parts, event, { template: "entity-rows", state: { list: { rows } } });
      },
    }),
  ];
}

function jobsResource(parts: AdminParts, given: JobsQuery): Resource {
  const query = toJobsListQuery(given);
  return {
    page: "entities",
    fragment: "entities",
    json: async () => {
      const { items, total } = await parts.jobs.list(query);
      return toPageOf(items.map(toJobRow), { total, limit: given.limit, skip: given.skip });
    },
    state: async () => {
      const [page, counts] = await Promise.all([parts.jobs.list(query), parts.jobs.countBy("status")]);
      const { status, agent_name, search, sort } = withoutEmpty(given);
      const context = { now: parts.clock(), currency: parts.options.currency };
      return {
        title: "Jobs",
        startable: startable(parts.agents),
        list: toListView({
          kind: "jobs",
          filters: { search, agent_name },
          filterLabels: { search: "Search", agent_name: "Agent" },
          status,
          sort,
          limit: given.limit,
          skip: given.skip,
          total: page.total,
          rows: page.items.map((job) => toJobLine(job, context)),
          counts,
          columns: COLUMNS,
          selects: [{ name: "agent_name", label: "Agent", options: agentOptions(parts, agent_name) }],
          icons: parts.assets.urls.icons,
        }),
      };
    },
  };
}

function agentOptions(parts: AdminParts, current: string | undefined) {
  const slugs = parts.agents.list().map((agent) => ({ value: agent.slug, label: agent.definition.name }));
  const known = current === undefined || slugs.some(({ value }) => value === current);
  const other = known ? [] : [{ value: current, label: current }];
  return [{ value: "", label: "All agents" }, ...slugs, ...other];
}

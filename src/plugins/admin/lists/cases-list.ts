import { defineRoute, type RouteDefinition } from "../../../core/http/route.ts";
import type { AdminParts } from "../parts.ts";
import { withoutEmpty } from "../query.ts";
import { resourceRoutes } from "../resource-routes.ts";
import { type Resource, renderFragment } from "../respond.ts";
import { IdsQuerySchema, readIds } from "./ids-query.ts";
import { type CasesQuery, CasesQuerySchema, toCasesListQuery } from "./list-query.ts";
import { type Column, toListView } from "./list-view.ts";
import { toPageOf } from "./page-of.ts";
import { toCaseLine, toCaseRow } from "./rows.ts";

const COLUMNS: readonly Column[] = [
  { label: "Status", key: "status" },
  { label: "Name", key: "name" },
  { label: "Job", key: "job_id", style: "wide" },
  { label: "Updates", style: "num wide" },
  { label: "Cost", key: "total_cost", style: "num wide" },
  { label: "Took", key: "duration", style: "num wide" },
  { label: "Changed", key: "updated_at", style: "wide" },
  { label: "Created", key: "created_at" },
];

/** The list of cases: page, API, single rows. */
export function casesListRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    ...resourceRoutes(parts, {
      page: ["/admin/cases", "Cases page"],
      api: ["/admin/api/cases", "List cases", "Filters combine. `search` looks in id, name and description."],
      query: CasesQuerySchema,
      answer: "A page of cases",
      resource: ({ query }) => casesResource(parts, query),
    }),
    defineRoute({
      method: "GET",
      path: "/admin/api/cases/rows",
      auth: "session",
      summary: "Rows of the cases table",
      tag: "Admin",
      hidden: true,
      query: IdsQuerySchema,
      responses: { 200: { description: "Table rows", contentType: "text/html" } },
      handler: async ({ query, event }) => {
        const { items } = await parts.cases.list({ where: { id: readIds(query) }, limit: 100 });
        const context = { now: parts.clock(), currency: parts.options.currency };
        const rows = items.map((item) => toCaseLine(item, context));
        return renderFragment(parts, event, { template: "entity-rows", state: { list: { rows } } });
      },
    }),
  ];
}

function casesResource(parts: AdminParts, given: CasesQuery): Resource {
  const query = toCasesListQuery(given);
  return {
    page: "entities",
    fragment: "entities",
    json: async () => {
      const { items, total } = await parts.cases.list(query);
      return toPageOf(items.map(toCaseRow), { total, limit: given.limit, skip: given.skip });
    },
    state: async () => {
      const [page, counts] = await Promise.all([parts.cases.list(query), parts.cases.countBy("status")]);
      const { status, job_id, search, sort } = withoutEmpty(given);
      const context = { now: parts.clock(), currency: parts.options.currency };
      return {
        title: "Cases",
        startable: [],
        list: toListView({
          kind: "cases",
          filters: { search, job_id },
          filterLabels: { search: "Search", job_id: "Job" },
          status,
          sort,
          limit: given.limit,
          skip: given.skip,
          total: page.total,
          rows: page.items.map((item) => toCaseLine(item, context)),
          counts,
          columns: COLUMNS,
          selects: [],
          icons: parts.assets.urls.icons,
        }),
      };
    },
  };
}

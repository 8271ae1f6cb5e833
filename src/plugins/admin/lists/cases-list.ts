import type { RouteDefinition } from "../../../core/http/route.ts";
import type { StoredCase } from "../../../core/models/case.ts";
import { CaseRowSchema } from "../answers/entities.ts";
import type { AdminParts, SeenParts } from "../parts.ts";
import { type CasesQuery, CasesQuerySchema, toCasesListQuery } from "./list-query.ts";
import { type ListOf, listRoutes } from "./list-routes.ts";
import { toCaseLine, toCaseRow } from "./rows.ts";

/** The list of cases. */
export function casesListRoutes(parts: AdminParts): RouteDefinition[] {
  return listRoutes<StoredCase, CasesQuery>(parts, {
    kind: "cases",
    title: "Cases",
    description:
      "Filters combine. `search` matches id, name and description, in an encrypted store only id and name (`searched` says so).",
    schema: CasesQuerySchema,
    rowSchema: CaseRowSchema,
    seen: casesList,
  });
}

function casesList({ cases, caller }: SeenParts): ListOf<StoredCase, CasesQuery> {
  return {
    kind: "cases",
    title: "Cases",
    table: cases,
    filters: ["search", "job_id"],
    filterLabels: { search: "Search", job_id: "Job" },
    columns: [
      { label: "Status", key: "status" },
      { label: "Name", key: "name", style: "main" },
      { label: "Job", key: "job_id", style: "wide c-of" },
      { label: "Updates", style: "num wide c-count" },
      { label: "Cost", key: "total_cost", style: "num wide c-cost" },
      { label: "Duration", key: "duration", style: "num wide c-took" },
      { label: "Created", key: "created_at", or: { label: "Changed", key: "updated_at" } },
    ],
    toListQuery: toCasesListQuery,
    readBeside: async () => ({ failed: {}, stuck: new Set() }),
    toRow: toCaseRow,
    // Who sees questions only does not see the jobs that ask them.
    toLine: (item, context) => ({
      ...toCaseLine(item, context),
      ...(caller.sight?.askedOf && { jobHref: "" }),
    }),
  };
}

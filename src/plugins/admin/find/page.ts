import * as v from "valibot";
import { countOf } from "../../../core/base/count-of.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import type { AdminParts } from "../parts.ts";
import { filterQuery, optionalText } from "../query.ts";
import { resourceRoutes } from "../resource-routes.ts";
import { FoundSchema, find } from "./find.ts";

const QuerySchema = filterQuery({ q: optionalText(v.pipe(v.string(), v.maxLength(200))) });

/** Leads from a few typed letters to a page, an agent, a saved view, a job, a question or a case. */
export function findRoutes(parts: AdminParts): RouteDefinition[] {
  return resourceRoutes(parts, {
    needs: "view",
    page: ["/admin/find", "Find page"],
    api: [
      "/admin/api/find",
      "Find pages, agents, saved views, jobs, questions and cases",
      "Up to 6 of each kind whose name or id has `q` in it, jobs also by the first line of their error; where more jobs or cases have it, the list of all. Without `q`, the pages.",
    ],
    query: QuerySchema,
    answer: "What was found",
    schema: v.object({ items: v.array(FoundSchema) }),
    seen: ({ query: { q = "" } }, seen) => ({
      page: "find",
      fragment: "find",
      json: async () => ({ items: await find({ ...seen, views: parts.views }, q) }),
      state: async () => {
        const found = await find({ ...seen, views: parts.views }, q);
        return { q, found, summary: countOf(found.length, "result") };
      },
    }),
  });
}

import * as v from "valibot";
import { type Caller, nameOf } from "../../../core/audit/caller.ts";
import { ServiceError } from "../../../core/base/errors.ts";
import { check } from "../../../core/http/check.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import { adminRoute } from "../admin-route.ts";
import { redirect } from "../answer.ts";
import { flashCookie } from "../flash.ts";
import { readForm } from "../forms/read-form.ts";
import { JobsQuerySchema } from "../lists/list-query.ts";
import type { AdminParts } from "../parts.ts";
import { withoutEmpty, withQuery } from "../query.ts";
import type { SavedView } from "./saved-view-table.ts";

const NewViewSchema = v.object({
  name: v.pipe(
    v.string(),
    v.transform((text) => text.replace(/\p{C}/gu, "").trim()),
    v.minLength(1, "must not be empty"),
    v.maxLength(60),
  ),
  query: v.pipe(v.string(), v.maxLength(2000)),
});
const ViewSchema = v.object({
  id: v.string(),
  name: v.string(),
  query: v.string(),
  by: v.string(),
  saved_at: v.string(),
});
const PathSchema = v.object({ id: v.pipe(v.string(), v.maxLength(100)) });

/** Saves, lists and removes views of the list of jobs: in the API, and by form. */
export function savedViewRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    adminRoute({
      method: "GET",
      path: "/admin/api/views",
      needs: "view",
      summary: "List the saved views of the list of jobs",
      description: "The filters that people have saved under a name.",
      responses: {
        200: { description: "The views, by name", schema: v.object({ items: v.array(ViewSchema) }) },
      },
      handler: async () => ({ items: await parts.views.list() }),
    }),
    adminRoute({
      method: "POST",
      path: "/admin/api/views",
      needs: "operate",
      summary: "Save a view of the list of jobs, for everybody",
      description:
        "`query` has the filters and the order, such as `status=failed&sort=-total_cost`. A view with the same name is replaced.",
      body: NewViewSchema,
      responses: { 200: { description: "The view", schema: ViewSchema } },
      handler: ({ body, caller }) => save(parts, body, caller),
    }),
    adminRoute({
      method: "DELETE",
      path: "/admin/api/views/{id}",
      needs: "operate",
      summary: "Remove a saved view",
      description: "The filter with this name is removed; the jobs stay.",
      params: PathSchema,
      responses: { 200: { description: "Done", schema: v.object({ message: v.string() }) } },
      handler: async ({ params }) => {
        if (!(await parts.views.remove(params.id)))
          throw new ServiceError("not_found", "There is no such view", { detail: "It was removed." });
        return { message: "The view was removed" };
      },
    }),
    adminRoute({
      method: "POST",
      path: "/admin/views",
      needs: "operate",
      summary: "Save a view (form)",
      hidden: true,
      responses: { 303: { description: "Redirect to the view" } },
      handler: async ({ event, caller }) => {
        const form = check(NewViewSchema, Object.fromEntries(await readForm(event)), "body");
        const view = await save(parts, form, caller);
        return redirect(hrefOf(view), [flashCookie(parts, event, "good", `Saved as "${view.name}".`)]);
      },
    }),
    adminRoute({
      method: "POST",
      path: "/admin/views/{id}/remove",
      needs: "operate",
      summary: "Remove a saved view (form)",
      hidden: true,
      params: PathSchema,
      responses: { 303: { description: "Redirect to the list" } },
      handler: async ({ params, event }) => {
        await parts.views.remove(params.id);
        return redirect("/admin/jobs", [flashCookie(parts, event, "good", "The view was removed.")]);
      },
    }),
  ];
}

/** The views, as the list of jobs shows them beside the filters that it has now. */
export async function toViewLinks({ views }: Pick<AdminParts, "views">, query: object) {
  const present = toQuery(query);
  return (await views.list()).map((view) => ({
    name: view.name,
    href: hrefOf(view),
    isCurrent: view.query === present,
    removeHref: `/admin/views/${view.id}/remove`,
  }));
}

function save(parts: AdminParts, { name, query }: v.InferOutput<typeof NewViewSchema>, caller: Caller) {
  // A view that the list would refuse is of no use.
  const given = check(JobsQuerySchema, Object.fromEntries(new URLSearchParams(query)), "query");
  return parts.views.save({ name, query: toQuery(given), by: nameOf(caller) });
}

/** Filters and order in one order of names: without the page, and without what is the default. */
function toQuery(query: object): string {
  const {
    limit: _limit,
    skip: _skip,
    after: _after,
    refresh: _refresh,
    ...rest
  } = withoutEmpty(query) as Record<string, string>;
  return new URLSearchParams(
    Object.entries(rest)
      .filter(([, value]) => value !== undefined)
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([name, value]): [string, string] => [name, String(value)]),
  ).toString();
}

function hrefOf({ query }: Pick<SavedView, "query">): string {
  return withQuery("/admin/jobs", Object.fromEntries(new URLSearchParams(query)));
}

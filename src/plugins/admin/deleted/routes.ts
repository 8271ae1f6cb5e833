import * as v from "valibot";
import { pageQuery } from "../../../core/http/query.ts";
import { defineRoute, type RouteDefinition } from "../../../core/http/route.ts";
import type { DeletedJob } from "../../../core/models/deleted-job.ts";
import { EntityIdSchema } from "../../../core/models/scalars.ts";
import { button } from "../actions/confirms.ts";
import { pair } from "../actions/forms.ts";
import { DeletedJobsSchema } from "../answers/entities.ts";
import { toPageOf } from "../lists/page-of.ts";
import type { AdminParts } from "../parts.ts";
import { filterQuery, optionalText, withoutEmpty, withQuery } from "../query.ts";
import { resourceRoutes } from "../resource-routes.ts";
import type { Resource } from "../respond.ts";
import { countOf, formatCount } from "../views/format.ts";
import { pathTo, statusPiece, timePiece } from "../views/pieces.ts";

const PATH = "/admin/deleted";
const QuerySchema = filterQuery({
  ...pageQuery({ max: 100, default: 50 }),
  search: optionalText(v.pipe(v.string(), v.maxLength(200))),
});
type Query = v.InferOutput<typeof QuerySchema>;

/** Jobs that were deleted: restore them, or delete them permanently. */
export function deletedRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    ...resourceRoutes(parts, {
      page: [PATH, "Deleted jobs page"],
      api: [
        "/admin/api/deleted",
        "List deleted jobs",
        "Those that can be restored, the last deleted one first. `search` matches id and name.",
      ],
      query: QuerySchema,
      answer: "Deleted jobs",
      schema: DeletedJobsSchema,
      resource: ({ query }) => deletedResource(parts, query),
    }),
    defineRoute({
      method: "POST",
      path: "/admin/api/jobs/{id}/restore",
      auth: "session",
      summary: "Restore a deleted job",
      description: "As it was, with its cases. One that was open when it was deleted is cancelled: retry it.",
      tag: "Admin",
      params: v.object({ id: EntityIdSchema }),
      responses: {
        200: {
          description: "The job",
          schema: v.object({ message: v.string(), id: v.string(), status: v.string() }),
        },
      },
      handler: async ({ params, caller }) => {
        const { id, status } = await parts.runner().restore(params.id, caller);
        return { message: `Job "${id}" was restored`, id, status };
      },
    }),
    ...pair(parts, "deleted", {
      action: "restore",
      act: async ({ runner }, id, { caller }) => {
        await runner().restore(id, caller);
        return { text: "The job was restored.", path: pathTo("jobs", id) };
      },
      confirm: async (id) => ({
        ...{ action: pathTo("deleted", id, "restore"), back: PATH, fields: "" },
        title: "Restore this job?",
        lines: [`"${id}" returns to the list of jobs as it was, with its cases.`],
        buttons: [button("Restore", {})],
      }),
    }),
    ...pair(parts, "deleted", {
      action: "erase",
      act: async ({ runner }, id, { caller }) => {
        const { cases } = await runner().remove(id, caller, { permanent: true });
        return `The job was deleted permanently${cases > 0 ? ` with ${countOf(cases, "case")}` : ""}.`;
      },
      confirm: async (id) => ({
        ...{ action: pathTo("deleted", id, "erase"), back: PATH, fields: "" },
        title: "Delete this job permanently?",
        lines: [`Nothing of "${id}" will be left. This cannot be undone.`],
        buttons: [button("Delete permanently", { style: "danger" })],
      }),
    }),
  ];
}

function deletedResource(parts: AdminParts, query: Query): Resource {
  const { limit, skip } = query;
  const { search } = withoutEmpty(query);
  const kept = parts.service.deletedRetention;
  const read = () => parts.jobs.deleted({ sort: "-deleted_at", limit, skip, ...(search && { search }) });
  return {
    page: "deleted",
    fragment: "deleted",
    json: async () => {
      const { items, total } = await read();
      return toPageOf(
        items.map((job) => toRow(job, kept)),
        { total, limit, skip },
      );
    },
    state: async () => {
      const { items, total } = await read();
      const now = parts.clock();
      const to = (at: number) => withQuery(PATH, { search, skip: at || undefined });
      return {
        total: formatCount(total),
        search: search ?? "",
        rows: items.map((job) => {
          const { restorable_until: until, ...row } = toRow(job, kept);
          return {
            ...row,
            status: statusPiece(row.status).toString(),
            deleted: timePiece(row.deleted_at, now).toString(),
            until: until === null ? "" : timePiece(until, now).toString(),
            restoreHref: pathTo("deleted", row.id, "restore"),
            eraseHref: pathTo("deleted", row.id, "erase"),
          };
        }),
        previous: skip > 0 ? to(Math.max(0, skip - limit)) : "",
        next: skip + limit < total ? to(skip + limit) : "",
      };
    },
  };
}

/** A deleted job in the list; `kept` in milliseconds. */
function toRow(job: DeletedJob, kept: number | null) {
  const { id, name, agent_name, status, created_at, finished_at, deleted_at, deleted_by } = job;
  const restorable_until = kept === null ? null : new Date(Date.parse(deleted_at) + kept).toISOString();
  return { id, name, agent_name, status, created_at, finished_at, deleted_at, deleted_by, restorable_until };
}

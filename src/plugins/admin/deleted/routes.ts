import * as v from "valibot";
import type { Caller } from "../../../core/audit/caller.ts";
import { countOf } from "../../../core/base/count-of.ts";
import { pageQuery } from "../../../core/http/query.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import type { DeletedCase, DeletedJob } from "../../../core/models/deleted-job.ts";
import { EntityIdSchema } from "../../../core/models/scalars.ts";
import { button } from "../actions/confirms.ts";
import { seenPair } from "../actions/forms.ts";
import { seenRoute } from "../admin-route.ts";
import { DeletedCasesSchema, DeletedJobsSchema } from "../answers/entities.ts";
import { pagerOf, toPageOf } from "../lists/page-of.ts";
import type { AdminParts, SeenParts } from "../parts.ts";
import { filterQuery, optionalText, withoutEmpty, withQuery } from "../query.ts";
import { resourceRoutes } from "../resource-routes.ts";
import type { Resource } from "../respond.ts";
import { pathTo, statusPiece, timePiece } from "../views/pieces.ts";
import { textOfRestoring } from "./deletion-text.ts";

const QuerySchema = filterQuery({
  ...pageQuery({ max: 100, default: 50 }),
  search: optionalText(v.pipe(v.string(), v.maxLength(200))),
});
type Query = v.InferOutput<typeof QuerySchema>;

/** What was deleted alone: jobs, or cases of jobs that are still listed. */
interface Kind {
  readonly one: "job" | "case";
  readonly many: "jobs" | "cases";
  readonly place: "deleted" | "deleted-cases";
  readonly schema: v.GenericSchema;
  /** What the confirmation says of a restoration. */
  readonly returns: string;
}
const JOBS: Kind = {
  ...{ one: "job", many: "jobs", place: "deleted", schema: DeletedJobsSchema },
  returns: "returns to the list of jobs as it was, with its cases.",
};
const CASES: Kind = {
  ...{ one: "case", many: "cases", place: "deleted-cases", schema: DeletedCasesSchema },
  returns: "returns to its job with its history. If it was open, it is cancelled.",
};

/** Jobs and cases that were deleted: restore them, or delete them permanently. */
export function deletedRoutes(parts: AdminParts): RouteDefinition[] {
  return [JOBS, CASES].flatMap((kind) => routesOf(parts, kind));
}

function routesOf(parts: AdminParts, kind: Kind): RouteDefinition[] {
  const { one, many, place } = kind;
  const path = `/admin/${place}`;
  const noun = one === "job" ? "Job" : "Case";
  const restore = ({ runner }: SeenParts, id: string, by: Caller) =>
    one === "job" ? runner().restore(id, by) : runner().restoreCase(id, by);
  return [
    ...resourceRoutes(parts, {
      needs: "view",
      page: [path, `Deleted ${many} page`],
      api: [
        `/admin/api/${place}`,
        `List deleted ${many}`,
        "Those that can be restored, the last deleted one first. `search` matches id and name.",
      ],
      query: QuerySchema,
      answer: `Deleted ${many}`,
      schema: kind.schema,
      seen: ({ query }, seen) => deletedResource(seen, kind, query),
    }),
    seenRoute(parts, {
      method: "POST",
      path: `/admin/api/${many}/{id}/restore`,
      needs: "operate",
      summary: `Restore a deleted ${one}`,
      description:
        one === "job"
          ? "As it was, with its cases. One that was open when it was deleted is cancelled: retry it."
          : "With its history. One that was open when it was deleted is cancelled. A case that was deleted with its job returns with it.",
      params: v.object({ id: EntityIdSchema }),
      responses: {
        200: {
          description: `The ${one}`,
          schema: v.object({ message: v.string(), id: v.string(), status: v.string() }),
        },
      },
      handler: async ({ params, caller }, seen) => {
        const { id, status } = await restore(seen, params.id, caller);
        return { message: `${noun} "${id}" was restored`, id, status };
      },
    }),
    ...seenPair(parts, place, {
      action: "restore",
      needs: "operate",
      act: async (seen, id, { caller }) => {
        await restore(seen, id, caller);
        return { text: `The ${one} was restored.`, path: pathTo(many, id) };
      },
      confirm: async (_parts, id) => ({
        ...{ action: pathTo(place, id, "restore"), back: path, subject: "", fields: "" },
        title: `Restore this ${one}?`,
        lines: [`"${id}" ${kind.returns}`],
        buttons: [button("Restore", {})],
      }),
    }),
    ...seenPair(parts, place, {
      action: "erase",
      needs: "manage",
      act: async ({ runner }, id, { caller }) => {
        const permanent = { permanent: true };
        if (one === "case") {
          await runner().removeCase(id, caller, permanent);
          return "The case was deleted permanently.";
        }
        const { cases } = await runner().remove(id, caller, permanent);
        return `The job was deleted permanently${cases > 0 ? ` with ${countOf(cases, "case")}` : ""}.`;
      },
      confirm: async (_parts, id) => ({
        ...{ action: pathTo(place, id, "erase"), back: path, subject: "", fields: "" },
        title: `Delete this ${one} permanently?`,
        lines: [`Nothing of "${id}" will be left. This cannot be undone.`],
        buttons: [button("Delete permanently", { style: "danger" })],
      }),
    }),
  ];
}

function deletedResource(parts: SeenParts, { one, many, place }: Kind, query: Query): Resource {
  const { limit, skip } = query;
  const { search } = withoutEmpty(query);
  const kept = parts.service.deletedRetention;
  const read = async () => {
    const wanted = { sort: "-deleted_at", limit, skip, ...(search && { search }) };
    const { items, total } =
      one === "job" ? await parts.jobs.deleted(wanted) : await parts.cases.deleted(wanted);
    return { total, rows: items.map((item) => toRow(item, kept)) };
  };
  return {
    page: "deleted",
    fragment: "deleted",
    json: async () => {
      const { rows, total } = await read();
      return toPageOf(rows, { total, limit, skip });
    },
    state: async () => {
      const { rows, total } = await read();
      const now = parts.clock();
      const path = `/admin/${place}`;
      return {
        search: search ?? "",
        ...{ one, many, path },
        restoring: textOfRestoring(parts),
        rows: rows.map((row) => ({
          ...{ id: row.id, name: row.name, deleted_by: row.deleted_by },
          owner: "job_id" in row ? row.job_id : row.agent_name,
          status: statusPiece(row.status).toString(),
          deleted: timePiece(row.deleted_at, now).toString(),
          until:
            row.restorable_until === null ? "No deadline" : timePiece(row.restorable_until, now).toString(),
          restoreHref: pathTo(place, row.id, "restore"),
          eraseHref: pathTo(place, row.id, "erase"),
        })),
        ...pagerOf({ limit, skip, total }, (query) => withQuery(path, { search }, query)),
      };
    },
  };
}

/** What was deleted, in the list; `kept` in milliseconds. */
function toRow(item: DeletedJob | DeletedCase, kept: number | null) {
  const { id, name, status, created_at, finished_at } = item;
  const deleted_at = item.deleted_at!;
  const restorable_until = kept === null ? null : new Date(Date.parse(deleted_at) + kept).toISOString();
  const owner = "job_id" in item ? { job_id: item.job_id } : { agent_name: item.agent_name };
  const about = { id, name, ...owner, status, created_at, finished_at };
  return { ...about, deleted_at, deleted_by: item.deleted_by ?? null, restorable_until };
}

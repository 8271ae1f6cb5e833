import * as v from "valibot";
import type { Caller } from "../../../core/audit/caller.ts";
import { ServiceError } from "../../../core/base/errors.ts";
import { check } from "../../../core/http/check.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import { seenRoute } from "../admin-route.ts";
import { redirect } from "../answer.ts";
import { BulkSchema } from "../answers/entities.ts";
import { isMarked } from "../forms/marks.ts";
import { readForm } from "../forms/read-form.ts";
import type { AdminParts, SeenParts } from "../parts.ts";
import { resourceRoutes } from "../resource-routes.ts";
import type { Resource } from "../respond.ts";
import { canUndo, toBulkData, toBulkView } from "./bulk-view.ts";
import type { BulkOperation } from "./operations.ts";
import { BulkBodySchema, freeze, selectionOf } from "./selection.ts";

const PathSchema = v.object({ id: v.pipe(v.string(), v.uuid("must be the id of a preview")) });
/** Actions on many entities: preview, confirm, progress, abort. */
export function bulkRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    seenRoute(parts, {
      method: "POST",
      path: "/admin/api/bulk",
      needs: "operate",
      summary: "Preview an action on many entities",
      description:
        "Fixes the selection and returns what would happen, with a hash. Nothing is changed until that hash is sent to `/admin/api/bulk/{id}/run`.",
      body: BulkBodySchema,
      status: 201,
      responses: { 201: { description: "The preview", schema: BulkSchema } },
      handler: async ({ body, caller }, seen) =>
        toBulkData(await seen.bulk.preview(await freeze(seen, await selectionOf(seen, body), caller))),
    }),
    ...resourceRoutes(parts, {
      needs: "operate",
      page: ["/admin/bulk/{id}", "Preview page"],
      api: [
        "/admin/api/bulk/{id}",
        "Show a preview or an operation's progress",
        "What an operation on many jobs would do, or how far it has come.",
      ],
      params: PathSchema,
      answer: "The operation",
      schema: BulkSchema,
      seen: ({ params }, seen) => bulkResource(seen, params.id),
    }),
    seenRoute(parts, {
      method: "POST",
      path: "/admin/api/bulk/{id}/run",
      needs: "operate",
      summary: "Run a preview",
      description: "Does to each job what the preview shows. A preview runs once.",
      params: PathSchema,
      body: v.object({ hash: v.string() }),
      status: 202,
      responses: { 202: { description: "The running operation", schema: BulkSchema } },
      handler: async ({ params, body, caller }, seen) =>
        toBulkData(await runBulk(parts, seen, { id: params.id, hash: body.hash, by: caller })),
    }),
    seenRoute(parts, {
      method: "POST",
      path: "/admin/api/bulk/{id}/abort",
      needs: "operate",
      summary: "Abort an operation",
      description: "What it has done stays; the other jobs are left as they are.",
      params: PathSchema,
      responses: { 200: { description: "The operation", schema: BulkSchema } },
      handler: async ({ params, caller }, seen) =>
        toBulkData(await abortBulk(parts, seen, { id: params.id, by: caller })),
    }),
    seenRoute(parts, {
      method: "POST",
      path: "/admin/api/bulk/{id}/undo",
      needs: "operate",
      summary: "Restore the jobs that an operation has deleted",
      description: "Those that are still deleted. The answer is another operation, which runs.",
      params: PathSchema,
      status: 202,
      responses: { 202: { description: "The running operation", schema: BulkSchema } },
      handler: async ({ params, caller }, seen) =>
        toBulkData(await undoBulk(parts, seen, { id: params.id, by: caller })),
    }),
    ...formRoutes(parts),
  ];
}

function formRoutes(parts: AdminParts): RouteDefinition[] {
  const page = { hidden: true } as const;
  const pageOf = (id: string) => `/admin/bulk/${id}`;
  return [
    seenRoute(parts, {
      ...page,
      method: "POST",
      path: "/admin/bulk",
      needs: "operate",
      summary: "Preview (form)",
      responses: { 303: { description: "Redirect to the preview" } },
      handler: async ({ event, caller }, seen) => {
        const form = await readForm(event);
        const body = check(BulkBodySchema, fromForm(form), "body");
        const { id } = await seen.bulk.preview(await freeze(seen, await selectionOf(seen, body), caller));
        return redirect(pageOf(id));
      },
    }),
    seenRoute(parts, {
      ...page,
      method: "POST",
      path: "/admin/bulk/{id}/run",
      needs: "operate",
      summary: "Run a preview (form)",
      params: PathSchema,
      responses: { 303: { description: "Redirect to its page" } },
      handler: async ({ params, event, caller }, seen) => {
        const form = await readForm(event);
        await runBulk(parts, seen, { id: params.id, hash: form.get("hash") ?? "", by: caller });
        return redirect(pageOf(params.id));
      },
    }),
    seenRoute(parts, {
      ...page,
      method: "POST",
      path: "/admin/bulk/{id}/abort",
      needs: "operate",
      summary: "Abort (form)",
      params: PathSchema,
      responses: { 303: { description: "Redirect to its page" } },
      handler: async ({ params, caller }, seen) => {
        const { id } = await abortBulk(parts, seen, { id: params.id, by: caller });
        return redirect(pageOf(id));
      },
    }),
    seenRoute(parts, {
      ...page,
      method: "POST",
      path: "/admin/bulk/{id}/undo",
      needs: "operate",
      summary: "Undo (form)",
      params: PathSchema,
      responses: { 303: { description: "Redirect to the page of the new operation" } },
      handler: async ({ params, caller }, seen) =>
        redirect(pageOf((await undoBulk(parts, seen, { id: params.id, by: caller })).id)),
    }),
  ];
}

type SeenBulk = Pick<SeenParts, "bulk" | "jobs" | "cases">;

/** Restores what an operation has deleted. */
async function undoBulk(
  parts: AdminParts,
  { bulk, jobs, cases }: SeenBulk,
  { id, by }: { readonly id: string; readonly by: Caller },
): Promise<BulkOperation> {
  const operation = await bulk.get(id);
  if (!canUndo(parts, operation)) {
    throw new ServiceError("invalid_transition", "Nothing that this operation did can be undone", {
      detail: "Only a deletion can, once it has ended.",
    });
  }
  const { kind } = operation;
  const where = { id: [...operation.ids] };
  const query = { where, sort: "id", limit: operation.ids.length };
  const { items } = await (kind === "jobs" ? jobs.deleted(query) : cases.deleted(query));
  const undo = await bulk.preview({
    ...{ kind, action: "restore", by },
    ids: items.map(({ id }) => id),
    cost: items.reduce((sum, { total_cost }) => sum + total_cost, 0),
    leftOut: operation.ids.length - items.length,
  });
  return runBulk(parts, { bulk }, { id: undo.id, hash: undo.hash, by });
}

/** The caller is recorded before the first entity is changed. */
async function runBulk(
  { audit }: Pick<AdminParts, "audit">,
  { bulk }: Pick<SeenBulk, "bulk">,
  { id, hash, by }: { readonly id: string; readonly hash: string; readonly by: Caller },
): Promise<BulkOperation> {
  const operation = await audit.change(
    ({ tx }) => bulk.claim(tx, id, { hash, by }),
    ({ kind, action, ids }) => {
      const after = { kind, action, count: ids.length };
      return { by, action: "bulk.run", target: { kind: "bulk", id }, after };
    },
  );
  bulk.start(operation);
  return operation;
}

async function abortBulk(
  { audit }: Pick<AdminParts, "audit">,
  { bulk }: Pick<SeenBulk, "bulk">,
  { id, by }: { readonly id: string; readonly by: Caller },
): Promise<BulkOperation> {
  await audit.change(
    ({ tx }) => bulk.abort(tx, id),
    (done) =>
      done === undefined
        ? undefined
        : { by, action: "bulk.abort", target: { kind: "bulk", id }, after: { done } },
  );
  bulk.halt(id);
  return bulk.get(id);
}

function bulkResource(parts: SeenParts, id: string): Resource {
  return {
    page: "bulk",
    fragment: "bulk",
    json: async () => toBulkData(await parts.bulk.get(id)),
    state: async () => toBulkView(parts, await parts.bulk.get(id)),
  };
}

function fromForm(form: URLSearchParams): Record<string, unknown> {
  const limits = [...form].flatMap(([name, text]): [string, number][] =>
    name.startsWith("limit.") && text.trim() !== "" ? [[name.slice("limit.".length), Number(text)]] : [],
  );
  const base = {
    ...{ kind: form.get("kind"), action: form.get("action") },
    ...(limits.length > 0 && { limits: Object.fromEntries(limits) }),
  };
  if (isMarked(form, "all")) {
    // Other parameters in a list's URL only control how its rows are shown.
    const { limit, skip, after, sort, refresh, ...filter } = Object.fromEntries(
      new URLSearchParams(form.get("query") ?? ""),
    );
    return { ...base, all: true, filter };
  }
  const picked = form.getAll("id");
  if (picked.length > 0) return { ...base, ids: picked };
  throw new ServiceError("invalid_request", "Nothing is selected", {
    detail: "Go back, tick some rows or select all that match, and try again.",
  });
}

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
    ...Object.entries(STEPS).flatMap(([step, { act, body, status, answer, ...about }]) => [
      seenRoute(parts, {
        ...about,
        ...{ method: "POST", path: `/admin/api/bulk/{id}/${step}`, needs: "operate", params: PathSchema },
        body,
        status,
        responses: { [status]: { description: answer, schema: BulkSchema } },
        handler: async ({ params: { id }, body, caller: by }, seen) =>
          toBulkData(await act(parts, seen, { id, hash: body?.hash ?? "", by })),
      }),
      seenRoute(parts, {
        ...{ method: "POST", path: `/admin/bulk/{id}/${step}`, needs: "operate", params: PathSchema },
        summary: `${about.summary} (form)`,
        hidden: true,
        responses: { 303: { description: "Redirect to the page of the operation" } },
        handler: async ({ params, event, caller: by }, seen) => {
          const hash = body && ((await readForm(event)).get("hash") ?? "");
          const { id } = await act(parts, seen, { id: params.id, hash: hash ?? "", by });
          return redirect(`/admin/bulk/${id}`);
        },
      }),
    ]),
    seenRoute(parts, {
      method: "POST",
      path: "/admin/bulk",
      needs: "operate",
      summary: "Preview (form)",
      hidden: true,
      responses: { 303: { description: "Redirect to the preview" } },
      handler: async ({ event, caller }, seen) => {
        const body = check(BulkBodySchema, fromForm(await readForm(event)), "body");
        const { id } = await seen.bulk.preview(await freeze(seen, await selectionOf(seen, body), caller));
        return redirect(`/admin/bulk/${id}`);
      },
    }),
  ];
}

type SeenBulk = Pick<SeenParts, "bulk" | "jobs" | "cases">;

/** A request for a step of an operation; the hash is that of what was shown, where the step needs it. */
interface StepRequest {
  readonly id: string;
  readonly hash: string;
  readonly by: Caller;
}

interface Step {
  readonly summary: string;
  readonly description: string;
  readonly body?: v.ObjectSchema<{ readonly hash: v.StringSchema<undefined> }, undefined>;
  readonly status: 200 | 202;
  readonly answer: string;
  act(parts: AdminParts, seen: SeenBulk, request: StepRequest): Promise<BulkOperation>;
}

/** What can be done with an operation, in the API and by form. */
const STEPS: Readonly<Record<string, Step>> = {
  run: {
    summary: "Run a preview",
    description: "Does to each job what the preview shows. A preview runs once.",
    body: v.object({ hash: v.string() }),
    status: 202,
    answer: "The running operation",
    act: runBulk,
  },
  abort: {
    summary: "Abort an operation",
    description: "What it has done stays; the other jobs are left as they are.",
    status: 200,
    answer: "The operation",
    act: abortBulk,
  },
  undo: {
    summary: "Restore the jobs that an operation has deleted",
    description: "Those that are still deleted. The answer is another operation, which runs.",
    status: 202,
    answer: "The running operation",
    act: undoBulk,
  },
};

/** Restores what an operation has deleted. */
async function undoBulk(
  parts: AdminParts,
  { bulk, jobs, cases }: SeenBulk,
  { id, by }: StepRequest,
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
  { id, hash, by }: StepRequest,
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
  { id, by }: StepRequest,
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

import * as v from "valibot";
import type { Caller } from "../../../core/audit/caller.ts";
import { countOf } from "../../../core/base/count-of.ts";
import { isServiceError, ServiceError, textOf } from "../../../core/base/errors.ts";
import { parseJson } from "../../../core/base/parse-json.ts";
import type { HttpEvent, RouteDefinition } from "../../../core/http/route.ts";
import type { Right } from "../../../core/models/access.ts";
import { EntityStatusSchema } from "../../../core/models/entity-status.ts";
import { EntityIdSchema, JsonMapSchema } from "../../../core/models/scalars.ts";
import { adminRoute, seenRoute } from "../admin-route.ts";
import { redirect } from "../answer.ts";
import { type DeletedThing, flashCookie } from "../flash.ts";
import { optionIn } from "../forms/marks.ts";
import { readForm } from "../forms/read-form.ts";
import { negotiate, wantsJson } from "../negotiate.ts";
import type { AdminParts, CommonParts, SeenParts } from "../parts.ts";
import { renderFragment, renderPage } from "../respond.ts";
import { labelOf, pathTo, setLabelOf } from "../views/pieces.ts";
import { type Confirm, caseConfirms, forkConfirm, jobConfirms, revokeConfirm } from "./confirms.ts";

const PathSchema = v.object({ id: EntityIdSchema });

/** Of what has other ids than jobs and cases do. */
const NamePathSchema = v.object({ id: v.string() });

type Act<Parts = AdminParts> = (
  parts: Parts,
  id: string,
  input: { form: URLSearchParams; caller: Caller },
) => Promise<string | Elsewhere>;

/** What was done, and where it is shown if not on the page of the entity. */
interface Elsewhere {
  readonly text: string;
  readonly path: string;
  /** What was deleted and can be restored right away. */
  readonly undo?: DeletedThing;
}

/**
 * The same changes by form: first a confirmation, then the change; in a dialog, or as a page without script.
 */
export function actionFormRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    ...Object.entries(JOB_ACTS).flatMap(([action, act]) =>
      seenPair(parts, "jobs", {
        action,
        needs: NEEDS[action] ?? "operate",
        act,
        confirm: async (seen, id, query) => {
          const job = await seen.jobs.get(id);
          if (action !== "fork") return jobConfirms(parts, job, action);
          const [calls, log, { items }] = await Promise.all([
            seen.runner().calls(id),
            seen.jobs.log(id),
            seen.cases.list({ where: { job_id: id }, limit: Number.POSITIVE_INFINITY }),
          ]);
          return forkConfirm(job, { calls, log, cases: items }, Number(query.get("line")));
        },
      }),
    ),
    ...seenPair(parts, "jobs", {
      action: "revoke-tokens",
      needs: "start",
      act: async (seen, id, { caller }) => {
        const job = await seen.jobs.get(id);
        await parts.revoked.revoke(job.id, undefined, caller);
        return "The tokens of this job were revoked.";
      },
      confirm: async (seen, id) => revokeConfirm(await seen.jobs.get(id)),
    }),
    ...Object.entries(CASE_ACTS).flatMap(([action, act]) =>
      seenPair(parts, "cases", {
        action,
        needs: NEEDS[action] ?? "operate",
        act,
        confirm: async (seen, id) => caseConfirms(parts, await seen.cases.summary(id), action),
      }),
    ),
  ];
}

/** A change of one thing by form. */
export interface Pair<Parts = AdminParts> {
  readonly action: string;
  readonly needs: Right;
  readonly act: Act<Parts>;
  readonly confirm: (parts: Parts, id: string, query: URLSearchParams) => Promise<Confirm>;
}

type Kind = Parameters<typeof pathTo>[0];

/** The routes of a change, for people who see everything: its confirmation, and the change. */
export function pair(parts: AdminParts, kind: Kind, change: Pair): RouteDefinition[] {
  const { get, post } = pairOf(kind, change);
  return [
    adminRoute({ ...get, handler: (input) => get.handler(input, parts) }),
    adminRoute({ ...post, handler: (input) => post.handler(input, parts) }),
  ];
}

/** The same also for people who see a part. */
export function seenPair(parts: AdminParts, kind: Kind, change: Pair<SeenParts>): RouteDefinition[] {
  const { get, post } = pairOf(kind, change);
  return [seenRoute(parts, get), seenRoute(parts, post)];
}

interface FormInput {
  readonly params: { readonly id: string };
  readonly event: HttpEvent;
  readonly caller: Caller;
}

function pairOf<Parts extends CommonParts>(kind: Kind, { action, needs, act, confirm }: Pair<Parts>) {
  const isNamed = kind === "schedules" || kind === "access" || kind === "access/people";
  const params = isNamed ? NamePathSchema : PathSchema;
  const about = { path: `/admin/${kind}/{id}/${action}`, hidden: true, params, needs } as const;
  return {
    get: {
      ...about,
      method: "GET",
      summary: `Confirm: ${action}`,
      responses: { 200: { description: "What will happen", contentType: "text/html" } },
      handler: async ({ params, event }: FormInput, parts: Parts) => {
        const state = { confirm: await confirm(parts, params.id, event.url.searchParams) };
        return negotiate(event, "page") === "fragment"
          ? renderFragment(parts, event, { template: "confirm", state })
          : renderPage(parts, event, { template: "confirm", state });
      },
    },
    post: {
      ...about,
      method: "POST",
      summary: `${action} (form)`,
      responses: { 303: { description: "Redirect to the entity, or to the list" } },
      handler: async ({ params, event, caller }: FormInput, parts: Parts) => {
        const form = await readForm(event);
        const list = `/admin/${kind}`;
        const here = kind === "jobs" || kind === "cases" ? pathTo(kind, params.id) : list;
        const after = action === "delete" ? list : here;
        return perform(parts, event, { after, here, run: () => act(parts, params.id, { form, caller }) });
      },
    },
  } as const;
}

/** Applies the change; a failure is shown on the page that the user came from. */
async function perform(
  parts: CommonParts,
  event: HttpEvent,
  { after, here, run }: { after: string; here: string; run: () => Promise<string | Elsewhere> },
): Promise<Response> {
  try {
    const done = await run();
    const { text, path, undo } =
      typeof done === "string" ? { text: done, path: after, undo: undefined } : { undo: undefined, ...done };
    return redirect(path, [flashCookie(parts, event, "good", text, undo)]);
  } catch (error) {
    if (!isServiceError(error) || error.status >= 500 || error.status === 404 || wantsJson(event))
      throw error;
    return redirect(here, [flashCookie(parts, event, "bad", textOf(error))]);
  }
}

/** Of the actions that need another right than `operate`. */
const NEEDS: Readonly<Record<string, Right>> = { stop: "start", status: "manage" };

const JOB_ACTS: Readonly<Record<string, Act<SeenParts>>> = {
  stop: async ({ runner }, id, { caller }) => {
    const { status } = await runner().stop(id, caller);
    return status === "cancelling"
      ? "The job was asked to stop."
      : `The job is ${labelOf(status).toLowerCase()}.`;
  },
  retry: async ({ runner }, id, { form, caller }) => {
    await runner().retry(id, optionIn(form, "from", ["last_step", "start"]), caller);
    return "The job is running again.";
  },
  resume: async ({ runner }, id, { form, caller }) => {
    await runner().resume(id, readLimits(form), caller);
    return "The job was resumed.";
  },
  continue: async ({ runner }, id, { caller }) => {
    await runner().continue(id, caller);
    return "The job resumes with the current code.";
  },
  restart: async ({ runner }, id, { caller }) => {
    await runner().retry(id, "start", caller);
    return "The job runs again from the start.";
  },
  fork: async ({ runner }, id, { form, caller }) => {
    const job_id = form.get("job_id");
    const request = { from: form.get("from") ?? "", fields: readJson(form.get("fields")) };
    const job = await runner().fork(
      id,
      { ...request, ...(v.is(EntityIdSchema, job_id) && { job_id }) },
      caller,
    );
    return { text: "The fork was started.", path: pathTo("jobs", job.id) };
  },
  status: async ({ runner }, id, { form, caller }) => {
    const { status } = await runner().override(id, readStatus(form), caller);
    return `The status was set to "${setLabelOf(status)}".`;
  },
  delete: async ({ runner }, id, { caller }) => {
    const { cases, restorableUntil } = await runner().remove(id, caller);
    const text = `The job was deleted${cases > 0 ? ` with ${countOf(cases, "case")}` : ""}.`;
    return {
      text,
      path: "/admin/jobs",
      ...(restorableUntil !== null && { undo: { kind: "jobs", id } }),
    };
  },
};

const CASE_ACTS: Readonly<Record<string, Act<SeenParts>>> = {
  status: async ({ runner }, id, { form, caller }) => {
    const { status } = await runner().overrideCase(id, readStatus(form), caller);
    return `The status was set to "${labelOf(status)}".`;
  },
  delete: async ({ runner }, id, { caller }) => {
    const { restorableUntil } = await runner().removeCase(id, caller);
    const undo = restorableUntil !== null && ({ undo: { kind: "cases", id } } as const);
    return { text: "The case was deleted.", path: "/admin/cases", ...undo };
  },
};

function readStatus(form: URLSearchParams) {
  const status = form.get("status");
  if (v.is(EntityStatusSchema, status)) return status;
  throw new ServiceError("invalid_request", "Invalid status", {
    detail: `Choose one of ${EntityStatusSchema.options.join(", ")}.`,
  });
}

/** Values by name, as a person typed them. */
function readJson(text: string | null): Record<string, unknown> {
  if (!text?.trim()) return {};
  const value = parseJson(text);
  if (v.is(JsonMapSchema, value)) return value;
  throw new ServiceError("invalid_request", 'The fields must be a JSON object, such as { "name": "value" }');
}

const LIMITS = ["max_cost", "max_duration", "max_cases"] as const;

function readLimits(form: URLSearchParams): Partial<Record<(typeof LIMITS)[number], number>> {
  const limits: Partial<Record<(typeof LIMITS)[number], number>> = {};
  for (const name of LIMITS) {
    const text = form.get(name)?.trim();
    if (!text) continue;
    const value = Number(text);
    if (!Number.isFinite(value) || value < 0 || (name !== "max_cost" && !Number.isInteger(value))) {
      throw new ServiceError("invalid_request", `${name} must be a number of at least 0`);
    }
    limits[name] = value;
  }
  return limits;
}

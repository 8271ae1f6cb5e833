import * as v from "valibot";
import { KEY_NOTE, readGivenKey, readIdempotencyKey } from "../../../core/http/idempotency-key.ts";
import { demand } from "../../../core/http/rights.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import { EntityStatusSchema } from "../../../core/models/entity-status.ts";
import { JobSchema } from "../../../core/models/job.ts";
import { JobInstructionsSchema } from "../../../core/models/job-instructions.ts";
import { EntityIdSchema, JsonMapSchema } from "../../../core/models/scalars.ts";
import { seenRoute } from "../admin-route.ts";
import type { AdminParts } from "../parts.ts";

const PathSchema = v.object({ id: EntityIdSchema });
const StatusSchema = v.object({ status: EntityStatusSchema });
const ChangedSchema = v.object({ message: v.string(), id: v.string(), status: EntityStatusSchema });
const DeleteQuerySchema = v.object({ permanent: v.optional(v.picklist(["true", "false"])) });
const changed = { 200: { description: "The new status", schema: ChangedSchema } };

/** Changes by an operator, as JSON. */
export function actionApiRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    seenRoute(parts, {
      method: "POST",
      path: "/admin/api/jobs/{id}/status",
      needs: "manage",
      summary: "Set a job's status",
      description: `From any status to any status; a terminal one aborts the current run. ${KEY_NOTE}`,
      params: PathSchema,
      body: StatusSchema,
      responses: changed,
      handler: async ({ params, body, caller, event }, { runner }) => {
        const once = readGivenKey(event, "status", body.status);
        const { id, status } = await runner().override(params.id, body.status, caller, once);
        return { message: `Job "${id}" is ${status}`, id, status };
      },
    }),
    seenRoute(parts, {
      method: "POST",
      path: "/admin/api/cases/{id}/status",
      needs: "manage",
      summary: "Set a case's status",
      description: KEY_NOTE,
      params: PathSchema,
      body: StatusSchema,
      responses: changed,
      handler: async ({ params, body, caller, event }, { runner }) => {
        const once = readGivenKey(event, "case status", params.id, body.status);
        const { id, status } = await runner().overrideCase(params.id, body.status, caller, once);
        return { message: `Case "${id}" is ${status}`, id, status };
      },
    }),
    seenRoute(parts, {
      method: "DELETE",
      path: "/admin/api/jobs/{id}",
      needs: "operate",
      summary: "Delete a job and its cases",
      description:
        "A job that has not ended is cancelled first. It can be restored with `/admin/api/jobs/{id}/restore` as long as `deletedRetention` says. With `permanent=true` nothing of it is kept; that applies to a deleted job, too.",
      params: PathSchema,
      query: DeleteQuerySchema,
      responses: {
        200: {
          description: "What was deleted",
          schema: v.object({
            message: v.string(),
            id: v.string(),
            deleted_cases: v.number(),
            /** ISO 8601, `indefinitely`, or `null` where it cannot be restored. */
            restorable_until: v.nullable(v.string()),
          }),
        },
      },
      handler: async ({ params: { id }, query, caller }, { runner }) => {
        const permanent = query.permanent === "true";
        if (permanent) demand(caller, "manage");
        const { cases, restorableUntil } = await runner().remove(id, caller, { permanent });
        const message = `Job "${id}" was deleted${restorableUntil === null ? " permanently" : ""}`;
        return { message, id, deleted_cases: cases, restorable_until: restorableUntil };
      },
    }),
    seenRoute(parts, {
      method: "DELETE",
      path: "/admin/api/cases/{id}",
      needs: "operate",
      summary: "Delete a case",
      description:
        "A case that has not ended is cancelled first; its job continues. It can be restored with `/admin/api/cases/{id}/restore` as long as `deletedRetention` says. With `permanent=true` nothing of it is kept; that applies to a deleted case, too.",
      params: PathSchema,
      query: DeleteQuerySchema,
      responses: {
        200: {
          description: "What was deleted",
          schema: v.object({
            message: v.string(),
            id: v.string(),
            /** ISO 8601, `indefinitely`, or `null` where it cannot be restored. */
            restorable_until: v.nullable(v.string()),
          }),
        },
      },
      handler: async ({ params: { id }, query, caller }, { runner }) => {
        const permanent = query.permanent === "true";
        if (permanent) demand(caller, "manage");
        const { restorableUntil } = await runner().removeCase(id, caller, { permanent });
        const message = `Case "${id}" was deleted${restorableUntil === null ? " permanently" : ""}`;
        return { message, id, restorable_until: restorableUntil };
      },
    }),
    seenRoute(parts, {
      method: "POST",
      path: "/admin/api/jobs/{id}/stop",
      needs: "start",
      summary: "Ask a job to stop",
      description:
        "The job is `cancelling` until its run has ended, then `cancelled`. A job that has ended is unchanged.",
      params: PathSchema,
      responses: changed,
      handler: async ({ params, caller }, { runner }) => {
        const { id, status } = await runner().stop(params.id, caller);
        return { message: `Job "${id}" is ${status}`, id, status };
      },
    }),
    seenRoute(parts, {
      method: "POST",
      path: "/admin/api/jobs/{id}/retry",
      needs: "operate",
      summary: "Run a failed or cancelled job again",
      description: KEY_NOTE,
      params: PathSchema,
      body: v.object({ from: v.optional(v.picklist(["last_step", "start"]), "last_step") }),
      responses: { 200: { description: "The job", schema: JobSchema } },
      handler: async ({ params, body, caller, event }, { jobs, runner }) =>
        jobs.show(
          await runner().retry(params.id, body.from, caller, readGivenKey(event, "retry", body.from)),
        ),
    }),
    seenRoute(parts, {
      method: "POST",
      path: "/admin/api/jobs/{id}/resume",
      needs: "operate",
      summary: "Resume a job that a limit ended",
      description: KEY_NOTE,
      params: PathSchema,
      body: v.object({ job_instructions: v.optional(v.partial(JobInstructionsSchema)) }),
      responses: { 200: { description: "The job", schema: JobSchema } },
      handler: async ({ params, body, caller, event }, { jobs, runner }) => {
        const once = readGivenKey(event, "resume", body.job_instructions ?? null);
        return jobs.show(await runner().resume(params.id, body.job_instructions, caller, once));
      },
    }),
    seenRoute(parts, {
      method: "POST",
      path: "/admin/api/jobs/{id}/continue",
      needs: "operate",
      summary: "Resume a held job with the current code",
      description: KEY_NOTE,
      params: PathSchema,
      responses: { 200: { description: "The job", schema: JobSchema } },
      handler: async ({ params, caller, event }, { jobs, runner }) =>
        jobs.show(await runner().continue(params.id, caller, readGivenKey(event, "continue"))),
    }),
    seenRoute(parts, {
      method: "POST",
      path: "/admin/api/jobs/{id}/fork",
      needs: "operate",
      summary: "Start a new job with the recorded beginning of this one",
      description:
        "With a `job_id` or an `Idempotency-Key` header, repeating the request returns the same job.",
      params: PathSchema,
      body: v.object({
        from: v.pipe(v.string(), v.minLength(1)),
        fields: v.optional(JsonMapSchema),
        job_id: v.optional(EntityIdSchema),
      }),
      responses: { 200: { description: "The new job", schema: JobSchema } },
      handler: async ({ params, body, caller, event }, { jobs, runner }) => {
        const request = { idempotencyKey: readIdempotencyKey(event), ...body };
        return jobs.show(await runner().fork(params.id, request, caller));
      },
    }),
    seenRoute(parts, {
      method: "POST",
      path: "/admin/api/jobs/{id}/move",
      needs: "operate",
      summary: "Give an open job another version of its agent",
      description: KEY_NOTE,
      params: PathSchema,
      body: v.object({ version: v.string() }),
      responses: { 200: { description: "The job", schema: JobSchema } },
      handler: async ({ params, body: { version }, caller, event }, { jobs, runner }) =>
        jobs.show(await runner().move(params.id, version, caller, readGivenKey(event, "move", version))),
    }),
  ];
}

import * as v from "valibot";
import type { Caller } from "../../../core/audit/caller.ts";
import { ServiceError } from "../../../core/base/errors.ts";
import { check } from "../../../core/http/check.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import { TimestampSchema } from "../../../core/models/scalars.ts";
import { adminRoute } from "../admin-route.ts";
import { redirect } from "../answer.ts";
import { FailureMarkSchema } from "../answers/entities.ts";
import { flashCookie } from "../flash.ts";
import { readForm } from "../forms/read-form.ts";
import type { AdminParts } from "../parts.ts";

const PathSchema = v.object({ failure: v.pipe(v.string(), v.regex(/^[0-9a-f]{12}$/, "must be a reason")) });
const MarkSchema = v.object({
  state: v.picklist(["resolved", "muted", "open"]),
  until: v.optional(TimestampSchema),
});

const DONE = {
  resolved: "Resolved: you hear of it again when a job fails for it.",
  muted: "Muted: you do not hear of it until it is opened again.",
  open: "Open again.",
} as const;

/** Resolves and mutes reasons of failures: by form and in the API. */
export function markRoutes(parts: AdminParts): RouteDefinition[] {
  const mark = async (
    failure: string,
    { state, until }: v.InferOutput<typeof MarkSchema>,
    caller: Caller,
  ) => {
    if (state === "resolved" && until === undefined)
      throw new ServiceError("invalid_request", "until is missing", {
        detail: "Send the last_at of the reason: what failed later is not resolved.",
      });
    const [job] = await parts.jobs.ids({ where: { failure }, limit: 1 });
    if (job === undefined)
      throw new ServiceError("not_found", "No job failed for this reason", {
        detail: "GET /admin/api/failures lists the reasons.",
      });
    const decision = state === "resolved" ? { state, until: new Date(until ?? 0).toISOString() } : { state };
    const { id: _, ...set } = (await parts.attention.marks.set(failure, decision, caller)) ?? { id: "" };
    return { failure, mark: "state" in set ? set : null };
  };
  return [
    adminRoute({
      method: "POST",
      path: "/admin/api/failures/{failure}/mark",
      needs: "operate",
      summary: "Resolve or mute a reason of failures",
      description:
        "`resolved`: people hear of it again once a job fails for it after `until`, the `last_at` of the reason as they saw it. `muted`: they do not, until it is `open` again. What they do not hear of is not in `GET /attention`, and the page of failures has it folded.",
      params: PathSchema,
      body: MarkSchema,
      responses: {
        200: {
          description: "The mark; null where it is open",
          schema: v.object({
            failure: v.string(),
            mark: FailureMarkSchema,
          }),
        },
      },
      handler: ({ params, body, caller }) => mark(params.failure, body, caller),
    }),
    adminRoute({
      method: "POST",
      path: "/admin/failures/{failure}/mark",
      needs: "operate",
      summary: "Resolve or mute a reason of failures (form)",
      hidden: true,
      params: PathSchema,
      responses: { 303: { description: "Redirect to the failures" } },
      handler: async ({ params, event, caller }) => {
        const form = check(MarkSchema, Object.fromEntries(await readForm(event)), "body");
        await mark(params.failure, form, caller);
        return redirect("/admin/failures", [flashCookie(parts, event, "good", DONE[form.state])]);
      },
    }),
  ];
}

import * as v from "valibot";
import type { RouteDefinition } from "../../../core/http/route.ts";
import { EntityIdSchema } from "../../../core/models/scalars.ts";
import { seenRoute } from "../admin-route.ts";
import { redirect } from "../answer.ts";
import { flashCookie } from "../flash.ts";
import { readForm } from "../forms/read-form.ts";
import type { AdminParts } from "../parts.ts";
import { withQuery } from "../query.ts";

const PathSchema = v.object({ id: EntityIdSchema });
const name = v.pipe(
  v.string(),
  v.transform((text) => text.replace(/\p{C}/gu, "").trim()),
  v.maxLength(60),
);

/** Gives a question to a person or role: in the API, and by form. */
export function assignRoutes(parts: AdminParts): RouteDefinition[] {
  const about = { params: PathSchema, method: "POST" } as const;
  return [
    seenRoute(parts, {
      ...about,
      path: "/admin/api/cases/{id}/assign",
      needs: "operate",
      summary: "Assign the open question of a case to a person or role",
      description: "`null` assigns it to nobody.",
      body: v.object({ to: v.nullable(name) }),
      responses: {
        200: {
          description: "To whom it is assigned",
          schema: v.object({ case_id: EntityIdSchema, assigned_to: v.nullable(v.string()) }),
        },
      },
      handler: async ({ params, body, caller }, seen) => {
        const item = await seen.runner().assign(params.id, body.to || null, caller);
        return { case_id: item.id, assigned_to: item.question?.assigned_to ?? null };
      },
    }),
    seenRoute(parts, {
      ...about,
      path: "/admin/cases/{id}/assign",
      needs: "operate",
      summary: "Assign a question (form)",
      hidden: true,
      responses: { 303: { description: "Redirect to the question" } },
      handler: async ({ params, event, caller }, seen) => {
        const to = v.parse(name, ((await readForm(event)).get("to") ?? "").slice(0, 60));
        await seen.runner().assign(params.id, to || null, caller);
        const text = to ? `Assigned to ${to}.` : "Assigned to nobody.";
        const back = withQuery("/admin/inbox", { question: params.id });
        return redirect(back, [flashCookie(parts, event, "good", text)]);
      },
    }),
  ];
}

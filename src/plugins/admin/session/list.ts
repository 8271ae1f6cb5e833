import * as v from "valibot";
import type { Caller } from "../../../core/audit/caller.ts";
import { countOf } from "../../../core/base/count-of.ts";
import { ServiceError } from "../../../core/base/errors.ts";
import type { HttpEvent, RouteDefinition } from "../../../core/http/route.ts";
import { EntityIdSchema } from "../../../core/models/scalars.ts";
import { adminRoute } from "../admin-route.ts";
import { redirect } from "../answer.ts";
import { flashCookie } from "../flash.ts";
import { isMarked } from "../forms/marks.ts";
import { readForm } from "../forms/read-form.ts";
import type { AdminParts } from "../parts.ts";
import { resourceRoutes } from "../resource-routes.ts";
import type { Resource } from "../respond.ts";
import type { AdminSession } from "../session-table.ts";
import { shortId } from "../sessions.ts";
import { timePiece } from "../views/pieces.ts";

const SessionsSchema = v.object({
  items: v.array(
    v.object({
      id: v.string(),
      name: v.string(),
      signed_in_by: v.picklist(["key", "link", "person"]),
      address: v.string(),
      since: v.string(),
      last_used: v.string(),
      until: v.string(),
      current: v.boolean(),
    }),
  ),
});
const HOW = { key: "API key", link: "Link", person: "Identity provider" } as const;
const EndedSchema = v.object({ message: v.string(), ended: v.number() });

/** Who is signed in, and signing them out. */
export function sessionListRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    ...resourceRoutes(parts, {
      needs: "manage",
      page: ["/admin/sessions", "Sessions page"],
      api: [
        "/admin/api/sessions",
        "List the people who are signed in",
        "Each session with its name, and when it began and was used last.",
      ],
      answer: "Sessions, newest first",
      schema: SessionsSchema,
      resource: ({ event }) => sessionsResource(parts, event),
    }),
    adminRoute({
      method: "POST",
      path: "/admin/sessions",
      needs: "manage",
      summary: "Sign out one or all (form)",
      hidden: true,
      responses: { 303: { description: "Redirect to the page" } },
      handler: async ({ event, caller }) => {
        const form = await readForm(event);
        const id = form.get("id") ?? "";
        const ended = isMarked(form, "all") ? await endAll(parts, caller) : await endOne(parts, id, caller);
        const text = `${countOf(ended, "session")} ended.`;
        return redirect("/admin/sessions", [flashCookie(parts, event, "good", text)]);
      },
    }),
    adminRoute({
      method: "DELETE",
      path: "/admin/api/sessions/{id}",
      needs: "manage",
      summary: "Sign out one session",
      description: "Its cookie is worth nothing from now on.",
      params: v.object({ id: EntityIdSchema }),
      responses: { 200: { description: "Done", schema: EndedSchema } },
      handler: async ({ params, caller }) => toEnded(await endOne(parts, params.id, caller)),
    }),
    adminRoute({
      method: "DELETE",
      path: "/admin/api/sessions",
      needs: "manage",
      summary: "Sign out everywhere",
      description: "Ends all sessions, including your own. Unused sign-in links become invalid too.",
      responses: { 200: { description: "Done", schema: EndedSchema } },
      handler: async ({ caller }) => toEnded(await endAll(parts, caller)),
    }),
  ];
}

function toEnded(ended: number): v.InferOutput<typeof EndedSchema> {
  return { message: `${countOf(ended, "session")} ended`, ended };
}

async function endOne(parts: AdminParts, id: string, by: Caller): Promise<number> {
  if (await endSession(parts, id, by)) return 1;
  throw new ServiceError("not_found", "Session not found", { detail: "It may have already ended." });
}

async function endAll(parts: AdminParts, by: Caller): Promise<number> {
  await parts.links.close();
  const sessions = await parts.sessions.list();
  const ended = await Promise.all(sessions.map(({ id }) => endSession(parts, id, by)));
  return ended.filter(Boolean).length;
}

function sessionsResource(parts: AdminParts, event: HttpEvent): Resource {
  const current = parts.sessions.current(event);
  return {
    page: "sessions",
    fragment: "sessions",
    json: async () => ({
      items: (await parts.sessions.list()).map((session) => toItem(session, current)),
    }),
    state: async () => {
      const now = parts.clock();
      const rows = (await parts.sessions.list()).map((session) => {
        const item = toItem(session, current);
        return {
          ...item,
          person: item.name === "" ? "No name given" : item.name,
          short: shortId(item.id),
          how: HOW[item.signed_in_by],
          since: timePiece(item.since, now).toString(),
          used: timePiece(item.last_used, now).toString(),
        };
      });
      return { rows };
    },
  };
}

function toItem({ id, name, by, address, since, seen, until }: AdminSession, current: string | undefined) {
  const time = (milliseconds: number) => new Date(milliseconds).toISOString();
  return {
    id,
    name,
    signed_in_by: by,
    address,
    since: time(since),
    last_used: time(seen),
    until: time(until),
    current: id === current,
  };
}

/** Ends a session and records the caller; resolves with whether it was open. */
export async function endSession({ sessions, audit }: AdminParts, id: string, by: Caller): Promise<boolean> {
  const line = { by, action: "session.end", target: { kind: "session", id: shortId(id) } } as const;
  const wasOpen = await audit.change(
    ({ tx }) => sessions.remove(tx, id),
    (wasOpen) => (wasOpen ? line : undefined),
  );
  sessions.ended(id);
  return wasOpen;
}

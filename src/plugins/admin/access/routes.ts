import * as v from "valibot";
import type { Caller } from "../../../core/audit/caller.ts";
import { isDuration, toMilliseconds } from "../../../core/base/duration.ts";
import { isServiceError, ServiceError, textOf } from "../../../core/base/errors.ts";
import type { HttpEvent, RouteDefinition } from "../../../core/http/route.ts";
import { AccessSchema, NewAccessSchema, PersonSchema } from "../../../core/models/access.ts";
import { button, type Confirm } from "../actions/confirms.ts";
import { pair } from "../actions/forms.ts";
import { adminRoute } from "../admin-route.ts";
import { readForm } from "../forms/read-form.ts";
import { wantsJson } from "../negotiate.ts";
import type { AdminParts } from "../parts.ts";
import { resourceRoutes } from "../resource-routes.ts";
import { renderPage } from "../respond.ts";
import { pathTo } from "../views/pieces.ts";
import { type AccessView, accessState, type TypedKey } from "./access-page.ts";

const PathSchema = v.object({ id: v.string() });

/** The page of the named keys and of the people: what `svc access` does, for people who manage. */
export function accessPageRoutes(parts: AdminParts): RouteDefinition[] {
  const { access, people } = parts;
  return [
    ...resourceRoutes(parts, {
      needs: "manage",
      page: ["/admin/access", "Access page"],
      answer: "The named keys, and the people who have come",
      schema: v.object({ keys: v.array(AccessSchema), people: v.array(PersonSchema) }),
      resource: () => ({
        page: "access",
        fragment: "access",
        json: async () => ({ keys: await access.list(), people: await people.list() }),
        state: () => accessState(parts),
      }),
    }),
    adminRoute({
      method: "POST",
      path: "/admin/access",
      needs: "manage",
      summary: "Make a named key (form)",
      hidden: true,
      responses: { 200: { description: "The page, with the key, once", contentType: "text/html" } },
      handler: ({ event, caller }) => addKey(parts, event, caller),
    }),
    adminRoute({
      method: "POST",
      path: "/admin/access/{id}/rotate",
      needs: "manage",
      summary: "Replace a named key (form)",
      hidden: true,
      params: PathSchema,
      responses: { 200: { description: "The page, with the new key, once", contentType: "text/html" } },
      handler: async ({ params, event, caller }) =>
        show(parts, event, { made: { ...(await access.rotate(params.id, caller)), isRotated: true } }),
    }),
    ...pair(parts, "access", {
      action: "remove",
      needs: "manage",
      act: async (_parts, id, { caller }) => {
        const { name } = await access.remove(id, caller);
        return `The key "${name}" was removed.`;
      },
      confirm: async (_parts, id) => {
        const found = (await access.list()).find((one) => one.id === id);
        return toConfirm(pathTo("access", id, "remove"), {
          title: `Remove the key "${found?.name ?? id}"?`,
          lines: ["It no longer works, on every instance within seconds. Its streams and sessions end."],
          label: "Remove the key",
          isDanger: true,
        });
      },
    }),
    ...pair(parts, "access/people", {
      action: "remove",
      needs: "manage",
      act: async (_parts, id, { caller }) => {
        const { name } = await people.remove(id, caller);
        return { text: `${name} is out.`, path: "/admin/access" };
      },
      confirm: async (_parts, id) =>
        toConfirm(pathTo("access/people", id, "remove"), {
          title: `Refuse ${await nameOf(parts, id)}?`,
          lines: [
            "On every instance within seconds, whatever the identity provider says. Sessions and streams end.",
          ],
          label: "Refuse this person",
          isDanger: true,
        }),
    }),
    ...pair(parts, "access/people", {
      action: "restore",
      needs: "manage",
      act: async (_parts, id, { caller }) => {
        const { name } = await people.restore(id, caller);
        return { text: `${name} may come again.`, path: "/admin/access" };
      },
      confirm: async (_parts, id) =>
        toConfirm(pathTo("access/people", id, "restore"), {
          title: `Let ${await nameOf(parts, id)} in again?`,
          lines: ["With the role that the service's code gives this person."],
          label: "Let in again",
          isDanger: false,
        }),
    }),
  ];
}

async function nameOf({ people }: AdminParts, id: string): Promise<string> {
  return (await people.list()).find((one) => one.id === id)?.name ?? id;
}

function toConfirm(
  action: string,
  {
    title,
    lines,
    label,
    isDanger,
  }: {
    readonly title: string;
    readonly lines: readonly string[];
    readonly label: string;
    readonly isDanger: boolean;
  },
): Confirm {
  return {
    ...{ title, subject: "", lines, action, fields: "", back: "/admin/access" },
    buttons: [button(label, { style: isDanger ? "danger" : "" })],
  };
}

/** The key is in this response and nowhere else: no redirect could carry it. */
async function addKey(parts: AdminParts, event: HttpEvent, caller: Caller): Promise<Response> {
  const form = await readForm(event);
  const text = (name: string) => form.get(name)?.trim() ?? "";
  const typed: TypedKey = {
    ...{ name: text("name"), role: text("role"), workspace: text("workspace"), expires: text("expires") },
    agents: form.getAll("agent"),
  };
  const refuse = (problem: string, status = 422) => {
    if (wantsJson(event)) throw new ServiceError("invalid_request", problem);
    return show(parts, event, { typed, problem }, status);
  };
  const parsed = v.safeParse(NewAccessSchema, {
    ...{ name: typed.name, role: typed.role },
    ...(typed.agents.length > 0 && { agents: typed.agents }),
    ...(typed.workspace !== "" && { workspace: typed.workspace }),
  });
  if (!parsed.success) {
    const [{ path, message }] = parsed.issues;
    return refuse(`The ${path?.[0]?.key ?? "key"} ${message}.`);
  }
  const { expires } = typed;
  const lasts = expires === "" || !isDuration(expires) ? 0 : toMilliseconds(expires);
  if (expires !== "" && lasts === 0)
    return refuse('How long it works must be a duration such as "90d", or empty.');
  const expires_at = expires === "" ? null : new Date(parts.clock().getTime() + lasts).toISOString();
  try {
    const made = await parts.access.add({ ...parsed.output, expires_at }, caller);
    return await show(parts, event, { made: { ...made, isRotated: false } });
  } catch (error) {
    if (!isServiceError(error) || error.status >= 500 || wantsJson(event)) throw error;
    return refuse(textOf(error), error.status);
  }
}

async function show(parts: AdminParts, event: HttpEvent, view: AccessView, status = 200): Promise<Response> {
  return renderPage(parts, event, { template: "access", state: await accessState(parts, view) }, { status });
}

import * as v from "valibot";
import { isServiceError, ServiceError, textOf } from "../../../core/base/errors.ts";
import { defineRoute, type HttpEvent, type RouteDefinition } from "../../../core/http/route.ts";
import { assertSameOrigin } from "../../../core/http/same-origin.ts";
import { redirect } from "../answer.ts";
import { toCookie } from "../cookies.ts";
import { DENSITY_COOKIE, toDensity } from "../density.ts";
import { readForm } from "../forms/read-form.ts";
import { wantsJson } from "../negotiate.ts";
import type { AdminParts } from "../parts.ts";
import { optionalText } from "../query.ts";
import { SESSION_COOKIE, type SessionOwner } from "../sessions.ts";
import { THEME_COOKIE } from "../shell.ts";
import { readTimes, TIMES_COOKIE, toTimeSetting, writeTimes } from "../times.ts";
import { cookieOf, openSession } from "./insert-session.ts";
import { endSession } from "./list.ts";
import { personRoutes } from "./person-routes.ts";
import { programRoutes } from "./program-routes.ts";
import { localPath, showLink, showSignIn } from "./sign-in-page.ts";

const page = { tag: "Admin", hidden: true, bodyLimit: 10_000 } as const;
const LinkSchema = v.object({ path: v.string(), expires_at: v.pipe(v.string(), v.isoTimestamp()) });
const YEAR = 365 * 24 * 3600;

/** Signing in and out, and what a browser remembers. */
export function sessionRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    ...personRoutes(parts),
    ...programRoutes(parts),
    defineRoute({
      ...page,
      method: "POST",
      path: "/admin/session",
      auth: "none",
      needs: "nothing",
      summary: "Sign in with the API key",
      responses: {
        303: { description: "Redirect to the requested page" },
        401: { description: "Wrong key" },
      },
      handler: ({ event }) => signIn(parts, event),
    }),
    defineRoute({
      method: "POST",
      path: "/admin/api/sign-in-links",
      auth: "key",
      needs: "manage",
      summary: "Create a one-time sign-in link, valid for five minutes",
      description: "The person who opens it is signed in to the admin interface, once.",
      tag: "Admin",
      status: 201,
      responses: { 201: { description: "The link, without the address of the service", schema: LinkSchema } },
      handler: async ({ caller }) => {
        const { row, url, expiresAt } = await parts.links.make("");
        await parts.audit.record({ by: caller, action: "session.link" }, ({ tx }) =>
          tx.insert("SignInLink", row),
        );
        return { path: url, expires_at: expiresAt.toISOString() };
      },
    }),
    defineRoute({
      ...page,
      method: "GET",
      path: "/admin/sign-in",
      auth: "none",
      needs: "nothing",
      summary: "The page of a one-time link",
      // Mail programs and link trackers add parameters.
      query: v.looseObject({ token: optionalText(v.pipe(v.string(), v.maxLength(100))) }),
      responses: {
        200: { description: "A button that signs in" },
        401: { description: "The link is no longer valid" },
      },
      // Link previews and prefetching must neither use the link up nor get a session: only the button does.
      handler: async ({ query: { token = "" }, event }) =>
        (await parts.links.isOpen(token)) ? showLink(parts, event, token) : refuseLink(parts, event, token),
    }),
    defineRoute({
      ...page,
      method: "POST",
      path: "/admin/sign-in",
      auth: "none",
      needs: "nothing",
      summary: "Sign in with a one-time link",
      responses: {
        303: { description: "Redirect to the dashboard" },
        401: { description: "The link was used or has expired" },
      },
      handler: async ({ event }) => {
        assertOwnPage(parts, event);
        const token = (await readForm(event)).get("token") ?? "";
        return beginSession(parts, event, { next: "/admin/", token });
      },
    }),
    defineRoute({
      ...page,
      method: "POST",
      path: "/admin/session/end",
      auth: "session",
      needs: "nothing",
      summary: "Sign out",
      responses: { 303: { description: "Redirect to the sign-in page" } },
      handler: async ({ event, caller }) => {
        const current = parts.sessions.current(event);
        if (current !== undefined) await endSession(parts, current, caller);
        return redirect("/admin/", [toCookie(event, parts, { name: SESSION_COOKIE, value: "", maxAge: 0 })]);
      },
    }),
    ...Object.entries(SETTINGS).map(([setting, { summary, read }]) =>
      defineRoute({
        ...page,
        method: "POST",
        path: `/admin/${setting}`,
        auth: "session",
        needs: "nothing",
        summary,
        responses: { 303: { description: "Back" } },
        handler: async ({ event }) => {
          const form = await readForm(event);
          const { name, value } = read(form, parts, event);
          const cookie = { name, value, maxAge: value === "" ? 0 : YEAR };
          return redirect(localPath(form.get("back")), [toCookie(event, parts, cookie)]);
        },
      }),
    ),
  ];
}

interface Setting {
  readonly summary: string;
  /** The cookie that keeps what a form says; empty for the default. */
  read(form: URLSearchParams, parts: AdminParts, event: HttpEvent): { name: string; value: string };
}

/** What a browser remembers, by the last part of the path. */
const SETTINGS: Readonly<Record<string, Setting>> = {
  theme: {
    summary: "Choose the color theme",
    read(form) {
      const theme = form.get("theme") ?? "";
      return { name: THEME_COOKIE, value: theme === "dark" || theme === "light" ? theme : "" };
    },
  },
  density: {
    summary: "Choose how close rows of lists are",
    read: (form) => ({ name: DENSITY_COOKIE, value: toDensity(form.get("density")) }),
  },
  times: {
    summary: "Choose how times are shown",
    read(form, parts, event) {
      const given = { form: form.get("form"), zone: form.get("zone"), local: form.get("local") };
      return { name: TIMES_COOKIE, value: writeTimes(toTimeSetting(given, readTimes(event, parts))) };
    },
  },
};

/** A page of another site must not sign its visitors in either. */
function assertOwnPage(parts: AdminParts, event: HttpEvent): void {
  if (event.req.headers.has("sec-fetch-site") || event.req.headers.has("origin")) {
    assertSameOrigin(event, parts);
  }
}

async function refuseLink(parts: AdminParts, event: HttpEvent, token: string): Promise<Response> {
  if (wantsJson(event)) throw linkUsed();
  const problem = token ? "This link was already used or has expired. Sign in with the key." : "";
  return showSignIn(parts, event, { status: 401, next: "/admin/", problem });
}

function linkUsed(): ServiceError {
  return new ServiceError("unauthorized", "This link was already used or has expired", {
    detail: "Sign in with the key.",
  });
}

async function signIn(parts: AdminParts, event: HttpEvent): Promise<Response> {
  assertOwnPage(parts, event);
  const form = await readForm(event);
  const next = localPath(form.get("next"));
  const key = form.get("key")?.trim() ?? "";
  let access: string | undefined;
  try {
    access = parts.gate.checkKey(key, event).access;
  } catch (error) {
    if (!isServiceError(error) || wantsJson(event)) throw error;
    return showSignIn(parts, event, {
      status: error.status,
      next,
      problem: error.type === "unauthorized" ? "This is not the key of this service." : textOf(error),
      headers: error.headers,
    });
  }
  const by = access === undefined ? { name: toName(form.get("name")) } : { access };
  return beginSession(parts, event, { next, ...by, key });
}

/** Nobody is signed in without a record of it, and no link is used up without a session. */
async function beginSession(
  parts: AdminParts,
  event: HttpEvent,
  { next, token, ...owner }: SessionOwner & { readonly next: string; readonly token?: string },
): Promise<Response> {
  const opened = await openSession(
    parts,
    event,
    owner,
    async ({ tx }) => token === undefined || parts.links.take(tx, token),
  );
  if (opened === undefined) return refuseLink(parts, event, token ?? "");
  return redirect(next, [cookieOf(parts, event, opened)]);
}

/** A name that can be shown in a line of a history. */
function toName(text: string | null): string {
  return (text ?? "").replace(/\p{C}/gu, "").trim().slice(0, 60);
}

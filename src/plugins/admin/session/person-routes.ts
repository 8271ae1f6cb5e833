import * as v from "valibot";
import type { IdentityProvider, Leaving } from "../../../core/access/identity-provider.ts";
import { isServiceError, ServiceError } from "../../../core/base/errors.ts";
import type { Seal } from "../../../core/base/seal.ts";
import { defineRoute, type HttpEvent, type RouteDefinition } from "../../../core/http/route.ts";
import { htmlAnswer, redirect } from "../answer.ts";
import { readCookie, toCookie } from "../cookies.ts";
import type { AdminParts } from "../parts.ts";
import { optionalText } from "../query.ts";
import { html } from "../views/html.ts";
import { insertSession } from "./insert-session.ts";
import { localPath, showSignIn } from "./sign-in-page.ts";

const COOKIE = "svc-sign-in";
/** Seconds that a person may take at the provider. */
const LONGEST = 600;
const page = { auth: "none", needs: "nothing", tag: "Admin", hidden: true } as const;
const BACK = "/admin/sign-in/back";

/** What the browser keeps while the person is at the provider. */
interface Kept extends Leaving {
  readonly next: string;
  /** Milliseconds since the epoch. */
  readonly until: number;
}

/** Signing in at an identity provider. */
export function personRoutes(parts: AdminParts): RouteDefinition[] {
  if (!parts.provider) return [];
  const { identity: provider, seal } = parts.provider;
  return [
    defineRoute({
      ...page,
      method: "GET",
      path: "/admin/sign-in/person",
      summary: "Go to the identity provider",
      query: v.object({ next: optionalText(v.pipe(v.string(), v.maxLength(2000))) }),
      responses: { 303: { description: "Redirect to the identity provider" } },
      handler: ({ query, event }) =>
        orSignInPage(parts, event, async () => {
          const { url, leaving } = await provider.begin(backOf(parts, event));
          const until = parts.clock().getTime() + LONGEST * 1000;
          const kept: Kept = { ...leaving, next: localPath(query.next ?? null), until };
          return redirect(url.href, [keep(parts, event, seal.close(JSON.stringify(kept)))]);
        }),
    }),
    defineRoute({
      ...page,
      method: "GET",
      path: BACK,
      summary: "Come back from the identity provider",
      query: v.looseObject({}),
      responses: {
        200: { description: "Leads to the requested page" },
        401: { description: "Not signed in" },
      },
      handler: ({ event }) => orSignInPage(parts, event, () => comeBack(parts, event, { provider, seal })),
    }),
  ];
}

async function comeBack(
  parts: AdminParts,
  event: HttpEvent,
  { provider, seal }: { readonly provider: IdentityProvider; readonly seal: Seal },
): Promise<Response> {
  const text = seal.open(readCookie(event, parts, COOKIE) ?? "");
  const kept = text === undefined ? undefined : (JSON.parse(text) as Kept);
  if (!kept || kept.until <= parts.clock().getTime()) {
    throw new ServiceError("unauthorized", "This browser has not started to sign in, or too long ago", {
      detail: "Sign in again.",
    });
  }
  const vouched = await provider.finish(new URL(backOf(parts, event) + event.url.search), kept);
  const cookie = await insertSession(parts, event, { vouched });
  const next = localPath(kept.next);
  // A redirect would still count as a request of the provider's site, for which browsers send no cookie of ours.
  const text200 = html`<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=${next}"><title>Signed in</title><p>Signed in. <a href="${next}">Continue</a></p></html>`;
  const response = await htmlAnswer(event, text200.toString());
  response.headers.append("set-cookie", cookie);
  response.headers.append("set-cookie", keep(parts, event, ""));
  return response;
}

/** The cookie that a browser brings along from the provider, so not `Strict`; it opens nothing. */
function keep(parts: AdminParts, event: HttpEvent, value: string): string {
  return toCookie(event, parts, { name: COOKIE, value, maxAge: value === "" ? 0 : LONGEST, sameSite: "Lax" });
}

/** The address that the provider must know. */
function backOf({ state, clients }: AdminParts, event: HttpEvent): string {
  const asked = `${clients.isSecure(event) ? "https" : "http"}://${event.req.headers.get("host")}`;
  return new URL(BACK, state.publicUrl ?? asked).href;
}

async function orSignInPage(
  parts: AdminParts,
  event: HttpEvent,
  work: () => Promise<Response>,
): Promise<Response> {
  try {
    return await work();
  } catch (error) {
    if (!isServiceError(error)) throw error;
    parts.log.warn("a person could not sign in", { error });
    const { status, headers, message, detail } = error;
    const problem = [message, detail].filter(Boolean).join(". ");
    return showSignIn(parts, event, { status, headers, next: "/admin/", problem });
  }
}

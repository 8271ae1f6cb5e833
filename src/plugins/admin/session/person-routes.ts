import * as v from "valibot";
import type { Leaving } from "../../../core/access/identity-provider.ts";
import { isServiceError, ServiceError, textOf } from "../../../core/base/errors.ts";
import { defineRoute, type HttpEvent, type RouteDefinition } from "../../../core/http/route.ts";
import { redirect } from "../answer.ts";
import { readCookie, toCookie } from "../cookies.ts";
import type { AdminParts } from "../parts.ts";
import { optionalText } from "../query.ts";
import { cookieOf, openSession } from "./insert-session.ts";
import { leadTo } from "./lead-to.ts";
import { leadToProgram, type Program } from "./program.ts";
import { localPath, showSignIn } from "./sign-in-page.ts";

const COOKIE = "svc-sign-in";
/** Seconds that a person may take at the provider. */
const LONGEST = 600;
const page = { auth: "none", needs: "nothing", tag: "Admin", hidden: true } as const;
const BACK = "/admin/sign-in/back";

/** What the browser keeps while the person is at the provider. */
interface Kept extends Leaving {
  readonly next: string;
  /** The program that the person has agreed to sign in, instead of the browser. */
  readonly program?: Program;
  /** Milliseconds since the epoch. */
  readonly until: number;
}

/** Signing in at an identity provider. */
export function personRoutes(parts: AdminParts): RouteDefinition[] {
  if (!parts.provider) return [];
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
          const { url, cookie } = await leave(parts, event, { next: query.next ?? "/admin/" });
          return redirect(url.href, [cookie]);
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
      handler: ({ event }) => orSignInPage(parts, event, () => comeBack(parts, event)),
    }),
  ];
}

/** Sends a person who has agreed to sign a program in to the provider, for tokens that are the program's own. */
export function leaveForProvider(
  parts: AdminParts,
  event: HttpEvent,
  { program }: { readonly program: Program },
): Promise<Response> {
  return orSignInPage(parts, event, async () => {
    const { url, cookie } = await leave(parts, event, { next: "/admin/", program });
    return leadTo(event, { to: url.href, said: "Signing in.", cookies: [cookie] });
  });
}

/** Where the browser goes, and the cookie with what it keeps meanwhile. */
async function leave(
  parts: AdminParts,
  event: HttpEvent,
  wanted: Pick<Kept, "next" | "program">,
): Promise<{ readonly url: URL; readonly cookie: string }> {
  const { identity, seal } = parts.provider!;
  const { url, leaving } = await identity.begin(backOf(parts, event));
  const kept: Kept = { ...leaving, ...wanted, until: parts.clock().getTime() + LONGEST * 1000 };
  return { url, cookie: keep(parts, event, seal.close(JSON.stringify(kept))) };
}

async function comeBack(parts: AdminParts, event: HttpEvent): Promise<Response> {
  const { identity: provider, seal } = parts.provider!;
  const text = seal.open(readCookie(event, parts, COOKIE) ?? "");
  const kept = text === undefined ? undefined : (JSON.parse(text) as Kept);
  if (!kept || kept.until <= parts.clock().getTime()) {
    throw new ServiceError("unauthorized", "This browser has not started to sign in, or too long ago", {
      detail: "Sign in again.",
    });
  }
  const vouched = await provider.finish(new URL(backOf(parts, event) + event.url.search), kept);
  const { program } = kept;
  const opened = (await openSession(parts, event, {
    vouched,
    ...(program && { program: program.program, unfetched: true }),
  }))!;
  const gone = keep(parts, event, "");
  if (program) {
    const response = await leadToProgram(parts, event, { opened, program });
    response.headers.append("set-cookie", gone);
    return response;
  }
  // A redirect would still count as a request of the provider's site, for which browsers send no cookie of ours.
  return leadTo(event, {
    to: localPath(kept.next),
    said: "Signed in.",
    cookies: [cookieOf(parts, event, opened), gone],
  });
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
    const { status, headers, message } = error;
    // Who is refused may try as often as they like. What fails has a cause.
    parts.log.warn("a person could not sign in", status < 500 ? { reason: message } : { error });
    return showSignIn(parts, event, { status, headers, next: "/admin/", problem: textOf(error) });
  }
}

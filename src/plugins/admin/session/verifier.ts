import { type ServiceError, textOf } from "../../../core/base/errors.ts";
import { isKeyMissing, type SessionVerifier } from "../../../core/http/gate.ts";
import type { HttpEvent } from "../../../core/http/route.ts";
import { negotiate } from "../negotiate.ts";
import type { AdminParts } from "../parts.ts";
import { type PageParts, showSignIn } from "./sign-in-page.ts";

/** Accepts sessions, and shows the sign-in page to people without one. */
export function createVerifier(
  parts: PageParts & Pick<AdminParts, "sessions" | "redactor">,
): SessionVerifier {
  return {
    verify: (event) => parts.sessions.verify(event),
    challenge: (event, error) => challenge(parts, event, error),
  };
}

/** Whether a key was sent, and nothing says that a person reads the response. */
function isProgram({ req: { headers } }: HttpEvent): boolean {
  const sendsKey = headers.has("x-api-key") || /^bearer /i.test(headers.get("authorization") ?? "");
  return sendsKey && !headers.get("accept")?.includes("text/html");
}

function problemOf({ req: { headers } }: HttpEvent, error: ServiceError): string {
  if (headers.has("x-api-key")) return "The X-API-Key header does not contain this service's key.";
  return isKeyMissing(error) ? "" : textOf(error);
}

async function challenge(
  parts: PageParts & Pick<AdminParts, "redactor">,
  event: HttpEvent,
  error: ServiceError,
): Promise<Response | undefined> {
  if (error.type !== "unauthorized") return undefined;
  const { pathname, search } = event.url;
  const route = pathname.startsWith("/admin/api/") ? "api" : "page";
  const wanted = negotiate(event, route);
  if (wanted === "json" || isProgram(event)) return undefined;
  // An open page whose session has ended reloads itself, and so shows the sign-in page.
  const headers: Record<string, string> = wanted === "fragment" ? { "hx-refresh": "true" } : {};
  const isPage = event.req.method === "GET" && route === "page";
  return showSignIn(parts, event, {
    status: 401,
    // Somebody may have put the key into the URL.
    next: isPage ? parts.redactor.text(pathname + search) : "/admin/",
    problem: problemOf(event, error),
    headers,
  });
}

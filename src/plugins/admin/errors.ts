import type { H3, HTTPError } from "h3";
import type { Caller } from "../../core/audit/caller.ts";
import { isServiceError, ServiceError } from "../../core/base/errors.ts";
import { toServiceError } from "../../core/http/failure.ts";
import { isFileAnswer } from "../../core/http/file-response.ts";
import type { HttpEvent } from "../../core/http/route.ts";
import { SECURITY_HEADERS } from "./answer.ts";
import { NOTHING_ALLOWED } from "./assets.ts";
import { negotiate, type Wanted } from "./negotiate.ts";
import type { AdminParts } from "./parts.ts";
import { renderFragment, renderPage } from "./respond.ts";
import { showSignIn } from "./session/sign-in-page.ts";
import { setViewer } from "./viewer.ts";

/** Adds the security headers to every response below `/admin`, and shows errors to people as pages. */
export function guardAdmin(app: H3, parts: AdminParts): void {
  app.use("/admin/**", async (event, next) => {
    try {
      const answer = await next();
      if (answer instanceof Response) return secured(answer);
      // No route matched: people get a page, programs the app's error.
      if (wantedOf(event) !== "page" || event.req.method !== "GET") return answer;
      return await showError(parts, event, noPage(event));
    } catch (error) {
      if (negotiate(event, event.url.pathname.startsWith("/admin/api/") ? "api" : "page") === "json")
        throw error;
      return showError(parts, event, toKnown(error, parts));
    }
  });
}

function wantedOf(event: HttpEvent): Wanted {
  return negotiate(event, event.url.pathname.startsWith("/admin/api/") ? "api" : "page");
}

function secured(answer: Response): Response {
  // Under the policy of our pages, the scripts of a file that is shown in a frame would be allowed.
  if (isFileAnswer(answer)) return answer;
  const isPage = answer.headers.get("content-security-policy") !== NOTHING_ALLOWED;
  for (const [name, value] of Object.entries(SECURITY_HEADERS))
    if (isPage || name !== "content-security-policy") answer.headers.set(name, value);
  return answer;
}

function toKnown(error: unknown, parts: AdminParts): ServiceError {
  if (isServiceError(error)) return error;
  return toServiceError(error as HTTPError, parts.log);
}

function noPage(event: HttpEvent): ServiceError {
  return new ServiceError("not_found", "Page not found", {
    detail: `There is no page at ${event.url.pathname}.`,
  });
}

async function showError(parts: AdminParts, event: HttpEvent, error: ServiceError): Promise<Response> {
  const shown = {
    title: error.message,
    detail: error.detail ?? "",
    status: error.status,
    type: error.type,
    ...wayOut(event, error),
  };
  // Somebody may have put a key into the URL.
  const state = { error: parts.redactor.json(shown) };
  const answer = { status: error.status, headers: error.headers };
  if (wantedOf(event) === "fragment") {
    return renderFragment(parts, event, { template: "error", state }, answer);
  }
  // Users who are not signed in learn only that there is a service.
  const viewer = await viewerAt(parts, event);
  if (!viewer) {
    return showSignIn(parts, event, {
      status: error.status === 404 ? 401 : error.status,
      next: "/admin/",
      problem: "",
    });
  }
  setViewer(event, viewer);
  return renderPage(parts, event, { template: "error", state }, answer);
}

/** A page whose query is refused leads back to itself without it. */
function wayOut({ url }: HttpEvent, { type }: ServiceError): { back: string; backLabel: string } {
  if (type === "invalid_request" && url.search !== "")
    return { back: url.pathname, backLabel: "Without these filters" };
  return { back: "/admin/", backLabel: "Dashboard" };
}

/** Who sent a request, where that is known: it may be refused for another reason. */
async function viewerAt({ gate }: AdminParts, event: HttpEvent): Promise<Caller | undefined> {
  try {
    return await gate.enter(event, "session");
  } catch {
    return undefined;
  }
}

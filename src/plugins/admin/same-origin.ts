import type { H3Event } from "h3";
import { ServiceError } from "../../core/errors.ts";

/**
 * Throws `forbidden` for a write that a page of another site may have caused. A browser says where a request comes from
 * in headers that no page can forge; a write with a session that says nothing is refused too.
 */
export function assertSameOrigin(event: H3Event, publicUrl: string | undefined): void {
  const { headers } = event.req;
  const site = headers.get("sec-fetch-site");
  if (site !== null) {
    if (site === "same-origin") return;
    throw crossSite();
  }
  const origin = headers.get("origin");
  if (origin === null) throw crossSite();
  if (publicUrl !== undefined && origin === new URL(publicUrl).origin) return;
  if (hostOf(origin) === headers.get("host")) return;
  throw crossSite();
}

/** Whether a request changes nothing by its method. */
export function isSafeMethod(method: string): boolean {
  return method === "GET" || method === "HEAD" || method === "OPTIONS";
}

function hostOf(origin: string): string | undefined {
  try {
    return new URL(origin).host;
  } catch {
    return undefined;
  }
}

function crossSite(): ServiceError {
  return new ServiceError("forbidden", "This change was not asked for by a page of this service", {
    detail: "Use the admin pages of this service, or send the X-API-Key header.",
  });
}

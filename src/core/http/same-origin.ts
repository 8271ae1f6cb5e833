import { ServiceError } from "../base/errors.ts";
import type { Clients } from "./clients.ts";
import type { HttpEvent } from "./route.ts";
import type { ServiceState } from "./service-state.ts";

/** What is known about the service's public address. */
export interface OwnAddress {
  readonly clients: Clients;
  readonly state: Pick<ServiceState, "publicUrl">;
}

/**
 * Throws `forbidden` for a write that a page of another site may have caused. A browser says where a request
 * comes from in headers that no page can forge; a write with a session but without these headers is refused
 * too.
 */
export function assertSameOrigin(event: HttpEvent, own: OwnAddress): void {
  const { headers } = event.req;
  const site = headers.get("sec-fetch-site");
  if (site !== null) {
    if (site === "same-origin") return;
    throw crossSite();
  }
  const origin = headers.get("origin");
  if (origin === null || !originsOf(event, own).includes(origin)) throw crossSite();
}

/**
 * Origins of the service's own pages, including the scheme: an attacker who can modify http traffic must not
 * write to https.
 */
function originsOf(event: HttpEvent, { clients, state }: OwnAddress): string[] {
  const host = event.req.headers.get("host");
  const asked = `${clients.isSecure(event) ? "https" : "http"}://${host}`;
  if (state.publicUrl === undefined) return [asked];
  const { origin, host: publicHost } = new URL(state.publicUrl);
  return host === publicHost ? [origin] : [origin, asked];
}

/** Whether a request's method changes nothing. */
export function isSafeMethod(method: string): boolean {
  return method === "GET" || method === "HEAD" || method === "OPTIONS";
}

function crossSite(): ServiceError {
  return new ServiceError("forbidden", "This change was not requested by a page of this service", {
    detail:
      "Use the admin pages of this service, or send the X-API-Key header. Behind a TLS proxy, set SERVICE_PUBLIC_URL or SERVICE_TRUST_PROXY.",
  });
}

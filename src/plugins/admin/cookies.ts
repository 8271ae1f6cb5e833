import type { HttpEvent } from "../../core/http/route.ts";
import type { OwnAddress } from "../../core/http/same-origin.ts";

/** What a cookie is set to. */
export interface Cookie {
  readonly name: string;
  readonly value: string;
  /** Seconds; 0 removes the cookie. */
  readonly maxAge: number;
  /** `Lax` is also sent where another site leads to a page of this one. @default "Strict" */
  readonly sameSite?: "Lax";
}

/**
 * A cookie of the admin interface: never readable by scripts, never sent from another site. Over https its name has
 * the prefix `__Secure-`: then no page that came over http, such as one of a neighbor of this host, can set it.
 */
export function toCookie(
  event: HttpEvent,
  own: OwnAddress,
  { name, value, maxAge, sameSite }: Cookie,
): string {
  const secure = isSecure(event, own);
  return `${nameOf(name, secure)}=${value}; Path=/admin; HttpOnly; SameSite=${sameSite ?? "Strict"}; Max-Age=${maxAge}${secure ? "; Secure" : ""}`;
}

/** The value of a cookie, `undefined` if it is missing. */
export function readCookie(event: HttpEvent, own: OwnAddress, name: string): string | undefined {
  const wanted = nameOf(name, isSecure(event, own));
  for (const pair of (event.req.headers.get("cookie") ?? "").split(";")) {
    const at = pair.indexOf("=");
    if (at > 0 && pair.slice(0, at).trim() === wanted) return pair.slice(at + 1).trim();
  }
  return undefined;
}

function nameOf(name: string, secure: boolean): string {
  return secure ? `__Secure-${name}` : name;
}

/** Whether the browser uses https, to us or to the proxy in front of us. */
function isSecure(event: HttpEvent, { clients, state }: OwnAddress): boolean {
  return clients.isSecure(event) || state.publicUrl?.startsWith("https:") === true;
}

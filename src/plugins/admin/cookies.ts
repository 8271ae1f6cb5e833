import type { HttpEvent } from "../../core/http/route.ts";
import type { OwnAddress } from "./same-origin.ts";

export interface CookieOptions {
  readonly secure: boolean;
  /** Seconds; 0 removes the cookie. */
  readonly maxAge: number;
}

/** A cookie of the admin interface: never readable by scripts, never sent from another site. */
export function toCookie(name: string, value: string, { secure, maxAge }: CookieOptions): string {
  return `${name}=${value}; Path=/admin; HttpOnly; SameSite=Strict; Max-Age=${maxAge}${secure ? "; Secure" : ""}`;
}

/** The value of a cookie, `undefined` if it is missing. */
export function readCookie(event: HttpEvent, name: string): string | undefined {
  for (const pair of (event.req.headers.get("cookie") ?? "").split(";")) {
    const at = pair.indexOf("=");
    if (at > 0 && pair.slice(0, at).trim() === name) return pair.slice(at + 1).trim();
  }
  return undefined;
}

/** Whether the browser uses https, to us or to the proxy in front of us. */
export function isSecure(event: HttpEvent, { clients, state }: OwnAddress): boolean {
  return clients.isSecure(event) || state.publicUrl?.startsWith("https:") === true;
}

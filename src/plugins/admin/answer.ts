import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { HttpEvent } from "../../core/http/route.ts";

const compress = promisify(gzip);
/** Smaller pages fit in one packet anyway. */
const WORTH_PACKING = 1200;

/** Headers of every response below `/admin`. */
export const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:; media-src 'self'; frame-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "same-origin",
  "x-frame-options": "DENY",
  "cross-origin-opener-policy": "same-origin",
};

export interface HtmlAnswer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * An HTML response, compressed if the client accepts it. Pages contain no secret that a compression attack
 * could reveal.
 */
export async function htmlAnswer(event: HttpEvent, text: string, answer: HtmlAnswer = {}): Promise<Response> {
  const packed =
    text.length > WORTH_PACKING && /\bgzip\b/.test(event.req.headers.get("accept-encoding") ?? "");
  return new Response(packed ? new Uint8Array(await compress(text, { level: 6 })) : text, {
    status: answer.status ?? 200,
    headers: {
      "content-type": "text/html; charset=utf-8",
      "cache-control": "no-store",
      vary: "accept, accept-encoding, hx-request, cookie",
      ...SECURITY_HEADERS,
      ...(packed && { "content-encoding": "gzip" }),
      ...answer.headers,
    },
  });
}

/** Redirects a browser after a form. */
export function redirect(to: string, cookies: readonly string[] = []): Response {
  const headers = new Headers({ location: to, "cache-control": "no-store" });
  for (const cookie of cookies) headers.append("set-cookie", cookie);
  return new Response(null, { status: 303, headers });
}

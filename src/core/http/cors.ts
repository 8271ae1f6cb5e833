import type { HttpEvent } from "./route.ts";

const METHODS = "GET, POST, PATCH, DELETE";
/** Not the API key: a page must not have it. */
const HEADERS =
  "authorization, content-type, idempotency-key, last-event-id, prefer, tus-resumable, upload-length, upload-metadata, upload-offset";
const EXPOSED =
  "location, retry-after, tus-resumable, upload-length, upload-offset, x-next-cursor, x-total-count";
/** Seconds for which a browser remembers the permission. */
const REMEMBERED = "600";

/** Lets pages of other origins use the routes that accept tokens (CORS, Fetch standard, section 3.3). */
export class Cors {
  readonly #origins: ReadonlySet<string>;
  readonly #isForPages: (event: HttpEvent) => boolean;

  constructor(origins: readonly string[], isForPages: (event: HttpEvent) => boolean) {
    this.#origins = new Set(origins);
    this.#isForPages = isForPages;
  }

  /** The response to a browser that asks before it sends a request; `undefined` where pages may not send any. */
  preflight(event: HttpEvent): Response | undefined {
    if (event.req.method !== "OPTIONS" || this.#originOf(event) === undefined) return undefined;
    return new Response(null, {
      status: 204,
      headers: {
        "access-control-allow-methods": METHODS,
        "access-control-allow-headers": HEADERS,
        "access-control-max-age": REMEMBERED,
      },
    });
  }

  /** Marks a response, of a failure too, as readable for the page that asked. */
  mark(response: Response, event: HttpEvent): void {
    if (!this.#isForPages(event)) return;
    response.headers.append("vary", "origin");
    const origin = this.#originOf(event);
    if (origin === undefined) return;
    response.headers.set("access-control-allow-origin", origin);
    response.headers.set("access-control-expose-headers", EXPOSED);
  }

  #originOf(event: HttpEvent): string | undefined {
    const origin = event.req.headers.get("origin");
    return origin !== null && this.#origins.has(origin) && this.#isForPages(event) ? origin : undefined;
  }
}

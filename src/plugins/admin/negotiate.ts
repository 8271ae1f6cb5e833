import type { HttpEvent } from "../../core/http/route.ts";

/** What a client accepts: data, a part of a page that is already open, or a whole page. */
export type Wanted = "json" | "fragment" | "page";

/**
 * Decides what to respond with. Pages are HTML unless JSON is preferred; API routes are JSON unless the
 * request comes from the page's script or prefers HTML.
 */
export function negotiate(event: HttpEvent, route: "page" | "api"): Wanted {
  const { headers } = event.req;
  // Going back in the browser's history needs the whole page again.
  if (headers.get("hx-request") === "true" && headers.get("hx-history-restore-request") !== "true") {
    return "fragment";
  }
  const accept = headers.get("accept");
  const json = quality(accept, "application/json");
  const text = quality(accept, "text/html");
  if (route === "page") return json > text ? "json" : "page";
  return text > json ? "fragment" : "json";
}

/** Whether a client that called a page asked for data: failures are then thrown, not shown. */
export function wantsJson(event: HttpEvent): boolean {
  return negotiate(event, "page") === "json";
}

/**
 * A client's preference for a media type: the weight of its most specific match (RFC 9110 section 12.5.1).
 */
function quality(accept: string | null, type: string): number {
  if (accept === null || accept.trim() === "") return 0;
  const [family] = type.split("/");
  let best = { exactness: -1, weight: 0 };
  for (const part of accept.split(",")) {
    const [name = "", ...parameters] = part.split(";").map((piece) => piece.trim().toLowerCase());
    const exactness = name === type ? 2 : name === `${family}/*` ? 1 : name === "*/*" ? 0 : -1;
    if (exactness <= best.exactness) continue;
    const weight = parameters.find((parameter) => parameter.startsWith("q="));
    best = { exactness, weight: weight === undefined ? 1 : Number(weight.slice(2)) || 0 };
  }
  return best.weight;
}

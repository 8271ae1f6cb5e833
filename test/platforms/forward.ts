import type { Answer, Received } from "./http-server.ts";
import type { Instance } from "./instances.ts";

const KEPT = ["x-api-key", "content-type", "accept", "last-event-id"];

/** Hands a request on to a running instance, as the front of a cloud does. */
export async function forward(instance: Instance, request: Received): Promise<Answer> {
  const query = request.query.size > 0 ? `?${request.query}` : "";
  const headers = KEPT.flatMap((name) => {
    const value = request.headers[name];
    return value === undefined ? [] : [[name, value] as [string, string]];
  });
  const hop = await fetch(`${instance.url}${request.path}${query}`, {
    method: request.method,
    headers,
    ...(request.raw.length > 0 ? { body: new Uint8Array(request.raw) } : {}),
  });
  return {
    status: hop.status,
    body: hop.body ?? "",
    headers: { "content-type": hop.headers.get("content-type") ?? "text/plain" },
  };
}

import type { Answer, Received } from "./http-server.ts";
import type { Instance } from "./instances.ts";

/** Hands a request on to a running instance, as the front of a cloud does. */
export async function forward(instance: Instance, request: Received): Promise<Answer> {
  const { "x-api-key": key, "content-type": type } = request.headers;
  const query = request.query.size > 0 ? `?${request.query}` : "";
  const hop = await fetch(`${instance.url}${request.path}${query}`, {
    method: request.method,
    headers: { ...(key ? { "x-api-key": key } : {}), ...(type ? { "content-type": type } : {}) },
    ...(request.raw.length > 0 ? { body: new Uint8Array(request.raw) } : {}),
  });
  return {
    status: hop.status,
    body: await hop.text(),
    headers: { "content-type": hop.headers.get("content-type") ?? "text/plain" },
  };
}

import { isLoopback } from "../core/base/loopback.ts";
import type { DeployTools } from "./tools.ts";

/** Sources of a key, tried one after another until the service accepts one. */
type KeySource = () => Promise<string | undefined> | string | undefined;

export interface ConnectOptions {
  readonly tools: Pick<DeployTools, "fetch" | "redact" | "signal">;
  /** Address of the service. */
  readonly url: string | undefined;
  /** Prefix of the API's paths. */
  readonly prefix?: string | undefined;
  readonly keys: readonly KeySource[];
  /** Called with the key that the service accepted, if it needs one. */
  readonly onAccepted?: ((key: string) => void) | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** The API of a running service, with a key that it accepts. */
export interface ServiceClient {
  /** A request to a path behind the API's prefix. */
  send(method: "GET" | "POST", path: string, body?: object, within?: number): Promise<Response>;
}

/** Milliseconds for one response: an unreachable service must not delay a deployment for long. */
const PATIENCE = 15_000;

/**
 * Calls a running service. What keeps it from that becomes the reason for `otherwise`. Rejects only when the step's own
 * time limit is reached.
 */
export async function withService<T>(
  options: ConnectOptions,
  use: (service: ServiceClient) => Promise<T>,
  otherwise: (reason: string, rejected?: boolean) => T,
): Promise<T> {
  const { tools, url } = options;
  if (url === undefined) return otherwise("the platform does not report its address");
  const { protocol, hostname } = new URL(url);
  if (protocol !== "https:" && !isLoopback(hostname))
    return otherwise(`its key is not sent over plain http to ${hostname}`);
  try {
    const service = await signIn(options, url.replace(/\/$/, ""));
    return "reason" in service ? otherwise(service.reason, service.rejected) : await use(service);
  } catch (error) {
    if (tools.signal.aborted) throw tools.signal.reason;
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    return otherwise(`it did not respond (${cause instanceof Error ? cause.message : String(cause)})`);
  }
}

/** A client with the first key that the service takes, or why there is none. */
async function signIn(
  { tools, prefix = "", keys, headers = {}, onAccepted }: ConnectOptions,
  base: string,
): Promise<ServiceClient | { readonly reason: string; readonly rejected?: boolean }> {
  const send = (method: string, path: string, key: string | undefined, body?: object, within = PATIENCE) =>
    tools.fetch(`${base}${path}`, {
      method,
      headers: {
        ...headers,
        accept: "application/json",
        ...(key === undefined ? {} : { "x-api-key": key }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      // A redirect would send the key to a host that the user did not name.
      redirect: "manual",
      signal: AbortSignal.timeout(within),
    });
  const probe = "/jobs?status=awaiting&limit=1";
  let at = prefix;
  let tried = 0;
  for (const source of [...keys, () => ""]) {
    const found = await source();
    if (found === undefined || (found === "" && tried > 0)) continue;
    const key = found === "" ? undefined : found;
    if (key !== undefined) tools.redact(key);
    let response = await send("GET", `${at}${probe}`, key);
    if (response.status === 404) {
      at = (await findPrefix(await send("GET", "/openapi.json", key))) ?? at;
      response = await send("GET", `${at}${probe}`, key);
    }
    await response.body?.cancel();
    if (key !== undefined) tried += 1;
    if (response.status === 401 || response.status === 403) continue;
    if (!response.ok) return { reason: `it responded to ${at}/jobs with ${response.status}` };
    if (key !== undefined) onAccepted?.(key);
    return { send: (method, path, body, within) => send(method, `${at}${path}`, key, body, within) };
  }
  return {
    reason: tried > 0 ? "it rejects the key that is known here" : "its key is unknown here",
    rejected: true,
  };
}

/** The prefix of the API, from the service's own OpenAPI document. */
async function findPrefix(response: Response): Promise<string | undefined> {
  const document: unknown = response.ok ? await response.json().catch(() => undefined) : undefined;
  const { paths = {} } = (document ?? {}) as { paths?: Record<string, unknown> };
  // The path of an agent's own list has a parameter.
  const jobs = Object.keys(paths).find((path) => /^[^{}]*\/jobs$/.test(path) && !path.startsWith("/admin/"));
  return jobs?.slice(0, -"/jobs".length);
}

import { ClientError } from "../client/client-error.ts";
import { Http, type HttpRequest } from "../client/http.ts";
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
  /**
   * A request to a path behind the API's prefix, for a limited time. Resolves with undefined where the service's version
   * does not have it; rejects where the service refuses.
   */
  send(path: string, request?: HttpRequest, within?: number): Promise<Response | undefined>;
}

class Refused extends Error {}

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
    return otherwise(error instanceof Refused ? error.message : `it did not respond (${reasonOf(error)})`);
  }
}

/** What is at the bottom of an error: that of `fetch` says only that it failed. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? reasonOf(error.cause) : error.message;
}

/** A client with the first key that the service takes, or why there is none. */
async function signIn(
  { tools, prefix = "", keys, headers = {}, onAccepted }: ConnectOptions,
  base: string,
): Promise<ServiceClient | { readonly reason: string; readonly rejected?: boolean }> {
  const once = (within = PATIENCE) => ({
    headers: { ...headers, accept: "application/json" },
    signal: AbortSignal.timeout(within),
    timeout: within / 1000,
    tries: 1,
  });
  let at = prefix;
  let tried = 0;
  for (const source of [...keys, () => ""]) {
    const found = await source();
    if (found === undefined || (found === "" && tried > 0)) continue;
    const key = found === "" ? undefined : found;
    if (key !== undefined) tools.redact(key);
    const http = new Http(base, key, { fetch: tools.fetch });
    const probe = () => statusOf(http.send(`${at}/jobs?status=awaiting&limit=1`, once()));
    let status = await probe();
    if (status === 404) {
      at = (await findPrefix(http.json("/openapi.json", once()))) ?? at;
      status = await probe();
    }
    if (key !== undefined) tried += 1;
    if (status === 401 || status === 403) continue;
    if (status !== 200) return { reason: `it responded to ${at}/jobs with ${status}` };
    if (key !== undefined) onAccepted?.(key);
    return {
      async send(path, request, within) {
        const sent = http.send(`${at}${path}`, { ...request, ...once(within) });
        const refused = await sent.then(() => 200, statusOfError);
        if (refused === 200) return sent;
        if (refused === 404 || refused === 405) return undefined;
        throw new Refused(`it responded to ${path} with ${refused}`);
      },
    };
  }
  return {
    reason: tried > 0 ? "it rejects the key that is known here" : "its key is unknown here",
    rejected: true,
  };
}

/** The status of a response that is not read; rejects where there is none. */
async function statusOf(sent: Promise<Response>): Promise<number> {
  return sent.then(async ({ status, body }) => {
    await body?.cancel();
    return status;
  }, statusOfError);
}

function statusOfError(error: unknown): number {
  if (error instanceof ClientError && error.status > 0) return error.status;
  throw error;
}

/** The prefix of the API, from the service's own OpenAPI document. */
async function findPrefix(read: Promise<unknown>): Promise<string | undefined> {
  const document = await read.catch(() => undefined);
  const { paths = {} } = (document ?? {}) as { paths?: Record<string, unknown> };
  // The path of an agent's own list has a parameter.
  const jobs = Object.keys(paths).find((path) => /^[^{}]*\/jobs$/.test(path) && !path.startsWith("/admin/"));
  return jobs?.slice(0, -"/jobs".length);
}

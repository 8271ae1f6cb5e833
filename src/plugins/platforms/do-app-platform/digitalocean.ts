import { readRetryAfter } from "../../../core/base/retry-after.ts";
import type { DeployTools } from "../../../deploy/tools.ts";
import { CloudError } from "../cloud/cloud-error.ts";
import { checkEndpoint } from "../cloud/endpoint.ts";
import { explainFailure } from "../cloud/explain-failure.ts";
import { type RestRefusal, type RestRequest, sendRest } from "../cloud/rest.ts";
import { retrying } from "../cloud/retry.ts";

/** What to do if the token is no longer accepted. */
export const RENEW = "Log in with: doctl auth init (or set DIGITALOCEAN_ACCESS_TOKEN to a new token)";

export interface DigitalOceanCall<T> extends Pick<RestRequest, "query" | "body"> {
  readonly idempotent?: boolean;
  readonly reread?: () => Promise<T | undefined>;
}

/** DigitalOcean's API, with its token and retries. */
export class DigitalOcean {
  readonly #tools: DeployTools;
  readonly #token: string;
  readonly #base: string;

  constructor(tools: DeployTools, token: string) {
    this.#tools = tools;
    this.#token = token;
    const own = tools.env.DIGITALOCEAN_API_URL;
    this.#base = own ? checkEndpoint(own, "DIGITALOCEAN_API_URL") : "https://api.digitalocean.com";
    tools.redact(token);
  }

  get<T>(path: string, query?: RestRequest["query"]): Promise<T> {
    return this.send<T>("GET", path, { query, idempotent: true });
  }

  /** Reads; undefined for what does not exist. */
  async find<T>(path: string): Promise<T | undefined> {
    try {
      return await this.get<T>(path);
    } catch (error) {
      if (error instanceof CloudError && error.status === 404) return undefined;
      throw error;
    }
  }

  async send<T>(method: RestRequest["method"], path: string, call: DigitalOceanCall<T> = {}): Promise<T> {
    const request = { method, url: `${this.#base}${path}`, query: call.query, body: call.body };
    const headers = { authorization: `Bearer ${this.#token}` };
    const once = () =>
      sendRest<T>(this.#tools, { ...request, headers }, (refusal) => toError(refusal, this.#tools.now()));
    try {
      return await retrying(once, {
        tools: this.#tools,
        idempotent: call.idempotent ?? false,
        reread: call.reread,
      });
    } catch (error) {
      throw explainFailure(this.#tools, error, { provider: "DigitalOcean", url: this.#base, login: RENEW });
    }
  }
}

function toError({ status, body, headers }: RestRefusal, now: Date): CloudError {
  const { id, message } = (typeof body === "object" && body !== null ? body : {}) as {
    id?: string;
    message?: string;
  };
  const reset = Number(headers.get("ratelimit-reset"));
  const untilReset = status === 429 && reset > 0 ? Math.max(0, reset * 1000 - now.getTime()) : undefined;
  return new CloudError(message ?? "the response gave no reason", {
    status,
    code: id ?? "unknown",
    retryAfter: readRetryAfter(headers.get("retry-after"), now) ?? untilReset,
  });
}

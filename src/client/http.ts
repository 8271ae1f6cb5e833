import type { ErrorResponse } from "../core/models/error-response.ts";
import { ClientError } from "./client-error.ts";
import { onlyKnown } from "./only-known.ts";
import { backoff, isAway, pause } from "./outage.ts";

/** An API key, a token of one job, or what gives one: it is called again when the service refuses the last one. */
export type Credential = string | (() => string | Promise<string>);

export interface ClientOptions {
  /**
   * Seconds for which `result` and `stream` wait for a service that does not answer, because it restarts or the network
   * is away, before they reject with `unreachable`. @default 60
   */
  readonly patience?: number;
  /** @default the platform's `fetch` */
  readonly fetch?: typeof globalThis.fetch;
}

export interface RequestOptions {
  /** Ends the call, and the wait for a service that does not answer. */
  readonly signal?: AbortSignal | undefined;
}

export interface HttpRequest extends RequestOptions {
  readonly method?: "GET" | "POST" | "PATCH" | "DELETE";
  readonly headers?: Readonly<Record<string, string>>;
  readonly json?: unknown;
  /** A body of another type; `headers` has the type. */
  readonly body?: Blob | undefined;
  /** Whether the service recognizes the same request when it comes again. @default true for GET */
  readonly repeatable?: boolean;
  /** Tries, where the service does not answer. @default 3 */
  readonly tries?: number;
  /** Seconds until the response begins. @default 30 */
  readonly timeout?: number;
}

/** Beginning of the tokens of one job; anything else is an API key. */
const TOKEN = "svct.";
/** Sends requests to one service. */
export class Http {
  readonly patience: number;
  readonly #url: string;
  readonly #credential: Credential | undefined;
  readonly #fetch: typeof globalThis.fetch;
  #current: Promise<string | undefined> | undefined;

  constructor(url: string, credential: Credential | undefined, options: ClientOptions) {
    const { patience = 60, fetch } = onlyKnown(options, { patience: true, fetch: true }, "client");
    this.#url = url.replace(/\/+$/, "");
    this.#credential = credential;
    this.patience = patience;
    // A browser's fetch works on its window only.
    this.#fetch = fetch ?? ((input, init) => globalThis.fetch(input, init));
  }

  isSame(other: Http): boolean {
    return this.#url === other.#url && this.#credential === other.#credential;
  }

  /** The response, if it is a success; rejects with a `ClientError`. */
  async send(path: string, request: HttpRequest = {}): Promise<Response> {
    const { method = "GET", repeatable = method === "GET", tries = 3, signal } = request;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#sendAuthorized(path, request);
      } catch (error) {
        signal?.throwIfAborted();
        if (attempt >= tries || !(error instanceof ClientError)) throw error;
        // What was refused for now has not been done. Where no answer came, it may have been.
        const wait = error.status === 429 ? error.retryAfter : repeatable && isAway(error) ? 0 : undefined;
        if (wait === undefined || wait > 30) throw error;
        await pause(Math.max(wait * 1000, backoff(attempt)), signal);
      }
    }
  }

  /** The JSON of a response. */
  async json<T>(path: string, request?: HttpRequest): Promise<T> {
    return readJson<T>(await this.send(path, request));
  }

  /** A credential that the service refused is asked for again, once. */
  async #sendAuthorized(path: string, request: HttpRequest): Promise<Response> {
    const held = this.#hold();
    const used = await held;
    try {
      return await this.#sendOnce(path, request, used);
    } catch (error) {
      const isRefused = error instanceof ClientError && error.status === 401;
      if (!isRefused || typeof this.#credential !== "function") throw error;
      // Another call may have replaced it in the meantime.
      if (this.#current === held) this.#current = undefined;
      const next = await this.#hold();
      if (next === used) throw error;
      return this.#sendOnce(path, request, next);
    }
  }

  #hold(): Promise<string | undefined> {
    if (this.#current) return this.#current;
    const asked = this.#ask();
    this.#current = asked;
    asked.catch(() => {
      if (this.#current === asked) this.#current = undefined;
    });
    return asked;
  }

  async #ask(): Promise<string | undefined> {
    const credential = this.#credential;
    return typeof credential === "function" ? credential() : credential;
  }

  async #sendOnce(path: string, request: HttpRequest, credential: string | undefined): Promise<Response> {
    const { method = "GET", json, body = null, signal, timeout = 30 } = request;
    const headers: Record<string, string> = { ...request.headers };
    if (json !== undefined) headers["content-type"] = "application/json";
    if (credential?.startsWith(TOKEN)) headers.authorization = `Bearer ${credential}`;
    else if (credential) headers["x-api-key"] = credential;
    signal?.throwIfAborted();
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), timeout * 1000);
    let response: Response;
    try {
      response = await this.#fetch(this.#url + path, {
        method,
        headers,
        body: json === undefined ? body : JSON.stringify(json),
        signal: signal ? AbortSignal.any([signal, late.signal]) : late.signal,
        // The key would be sent on to where a redirect leads.
        redirect: "manual",
        // No cookies: nothing is done in the name of a person who is signed in.
        credentials: "omit",
      });
    } catch (cause) {
      signal?.throwIfAborted();
      throw new ClientError("unreachable", `No service answers at ${this.#url}`, { cause });
    } finally {
      clearTimeout(timer);
    }
    if (response.ok) return response;
    throw await this.#explain(response, path);
  }

  async #explain(response: Response, path: string): Promise<ClientError> {
    const { status, statusText, headers } = response;
    // A page is shown neither the status nor the target.
    const location = response.type === "opaqueredirect" ? "" : headers.get("location");
    if (location !== null && (status === 0 || (status >= 300 && status < 400))) {
      await response.body?.cancel();
      const to = URL.canParse(location, this.#url + path)
        ? new URL(location, this.#url + path).origin
        : location;
      const message = `${this.#url} redirects${to && ` to ${JSON.stringify(to)}`}; redirects are not followed`;
      return new ClientError("unreachable", message, {
        status,
        detail: "If the service is there, use that URL.",
      });
    }
    const body = (await response.json().catch(() => undefined)) as Partial<ErrorResponse> | undefined;
    const retryAfter = Number(headers.get("retry-after") ?? Number.NaN);
    const message = body?.error ?? `The service answered ${`${status} ${statusText}`.trim()}`;
    return new ClientError(body?.error_type ?? (body?.error ? "internal_error" : "unreachable"), message, {
      status,
      detail: body?.detail ?? undefined,
      retryAfter: retryAfter >= 0 ? retryAfter : undefined,
    });
  }
}

export async function readJson<T>(response: Response): Promise<T> {
  try {
    return (await response.json()) as T;
  } catch (cause) {
    throw new ClientError("unreachable", `${response.url} does not answer like an agent control service`, {
      status: response.status,
      detail: "Check the URL, with the API prefix if the service has one.",
      cause,
    });
  }
}

import { readServerEvents, type ServerEventText } from "../../client/server-events.ts";
import type { ErrorResponse } from "../../core/models/error-response.ts";
import { CliError } from "../errors.ts";

export interface ServiceClientOptions {
  /** Address of the service, with its API prefix. */
  readonly url: string;
  readonly key: string | undefined;
  readonly fetch: typeof globalThis.fetch;
  /** Where the last service of this folder was: helps if there is none now. */
  readonly last?: string | undefined;
}

/** The lines of what a service sends as a line of JSON for each value. Throws if the last one was cut off. */
export async function* linesOf(stream: AsyncIterable<Uint8Array>): AsyncGenerator<string, void> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const bytes of stream) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
    rest = lines.pop()!;
    yield* lines;
  }
  if (rest !== "") throw new CliError("The service ended its answer early", { detail: "Try again." });
}

/** Statuses of a service that is closing, and of a proxy that cannot reach it. */
const AWAY = new Set([502, 503, 504]);

/** The service cannot be reached at the moment: it may be restarting. */
export class UnreachableError extends CliError {}

/**
 * What answers is not the service, or does not know the key. While a service restarts, another program may have its
 * port.
 */
export class StrangerError extends CliError {}

/** Calls a running service; failures keep the service's own message. */
export class ServiceClient {
  readonly url: string;
  readonly #key: string | undefined;
  readonly #fetch: typeof globalThis.fetch;

  readonly #last: string | undefined;

  constructor({ url, key, fetch, last }: ServiceClientOptions) {
    this.url = url.replace(/\/+$/, "");
    this.#key = key;
    this.#fetch = fetch;
    this.#last = last && URL.canParse(last) ? new URL(last).href.replace(/\/+$/, "") : undefined;
  }

  async get<T>(path: string): Promise<T> {
    return this.#read<T>(await this.#send("GET", path));
  }

  async post<T>(path: string, body: unknown): Promise<T> {
    return this.#read<T>(await this.#send("POST", path, { body: JSON.stringify(body) }));
  }

  async delete<T>(path: string): Promise<T> {
    return this.#read<T>(await this.#send("DELETE", path));
  }

  /** The events of a stream after the one with this id, until the connection ends. */
  async *events(path: string, after: string | undefined): AsyncGenerator<ServerEventText> {
    const headers = { accept: "text/event-stream", ...(after && { "last-event-id": after }) };
    const response = await this.#send("GET", path, { headers });
    if (!response.headers.get("content-type")?.startsWith("text/event-stream")) {
      await response.body?.cancel();
      throw this.#stranger();
    }
    if (!response.body) return;
    try {
      yield* readServerEvents(response.body);
    } catch (error) {
      throw this.#unreachable(error);
    }
  }

  /** The raw response of a route. */
  async *download(path: string): AsyncGenerator<Uint8Array, void> {
    const { body } = await this.#send("GET", path);
    if (!body) return;
    try {
      yield* body;
    } catch (error) {
      throw this.#unreachable(error);
    }
  }

  /** The lines of a response that has a line of JSON for each value. Throws if the last one was cut off. */
  lines(path: string): AsyncGenerator<string, void> {
    return linesOf(this.download(path));
  }

  async #send(method: string, path: string, init: { headers?: Record<string, string>; body?: string } = {}) {
    const headers = {
      ...init.headers,
      ...(init.body && { "content-type": "application/json" }),
      ...(this.#key && { "x-api-key": this.#key }),
    };
    let response: Response;
    try {
      // A redirect would send the key to a host that the user did not name.
      const options = { method, headers, body: init.body ?? null, redirect: "manual" } as const;
      response = await this.#fetch(this.url + path, options);
    } catch (error) {
      throw this.#unreachable(error);
    }
    if (response.ok) return response;
    throw await this.#explain(response);
  }

  async #read<T>(response: Response): Promise<T> {
    try {
      return (await response.json()) as T;
    } catch (error) {
      throw this.#stranger(error);
    }
  }

  #stranger(cause?: unknown): StrangerError {
    return new StrangerError(`${this.url} does not respond like an agent control service`, {
      detail: "Check the URL: --url or SERVICE_URL.",
      cause,
    });
  }

  #unreachable(cause: unknown): UnreachableError {
    return new UnreachableError(`No service responds at ${this.url}`, {
      detail: `${this.#whereLast()}Start one with svc start, or set another URL with --url or SERVICE_URL.`,
      cause,
    });
  }

  #whereLast(): string {
    if (this.#last === undefined) return "";
    return `The last service of this folder ran ${this.#last === this.url ? "there" : `at ${this.#last}`}. `;
  }

  async #explain(response: Response): Promise<CliError> {
    const location = response.headers.get("location");
    if (response.status >= 300 && response.status < 400 && location !== null) {
      await response.body?.cancel();
      const target = URL.canParse(location, response.url) ? new URL(location, response.url).origin : location;
      return new StrangerError(
        `${this.url} redirects to ${JSON.stringify(target)}; redirects are not followed`,
        {
          detail: "If the service is there, set that URL with --url or SERVICE_URL.",
        },
      );
    }
    if (response.status === 401) {
      return new StrangerError(
        `The service at ${this.url} ${this.#key ? "rejected the API key" : "requires an API key"}`,
        {
          detail:
            "Set SERVICE_API_KEY to the service's key, or run this in the folder where the service was started.",
        },
      );
    }
    const body = (await response.json().catch(() => undefined)) as Partial<ErrorResponse> | undefined;
    const message = body?.error ?? `The service answered ${response.status} ${response.statusText}`;
    const Answered = body?.error === undefined ? StrangerError : CliError;
    const Failure = AWAY.has(response.status) ? UnreachableError : Answered;
    return new Failure(message, body?.detail ? { detail: body.detail } : {});
  }
}

import { ClientError } from "../../client/client-error.ts";
import { Http, type HttpRequest } from "../../client/http.ts";
import { isAway } from "../../client/outage.ts";
import { readServerEvents, type ServerEventText } from "../../client/server-events.ts";
import { KEY_PREFIX } from "../../core/access/make-key.ts";
import { CliError } from "../errors.ts";
import { isUnsent, ONCE, type Patience, patiently } from "./patience.ts";

export interface ServiceClientOptions {
  /** Address of the service, with its API prefix. */
  readonly url: string;
  readonly key: string | undefined;
  /** Whether the key is the sign-in of a person. @default false */
  readonly isSignedIn?: boolean;
  readonly fetch: typeof globalThis.fetch;
  /** Where the last service of this folder was: helps if there is none now. */
  readonly last?: string | undefined;
  /** What a command for the same service must have, too: it was named by a flag. @default none */
  readonly flags?: readonly string[];
  /** How it waits for a service that does not answer. @default each request is sent once */
  readonly patience?: Patience | undefined;
}

/** What is said of a request that changes something. */
interface Change {
  /** Whether the service recognizes the same request when it comes again. @default false */
  readonly repeatable?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Who a named key or a sign-in is. */
interface Who {
  readonly name: string;
  readonly workspace: string | null;
  readonly proven_by: string | null;
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

/** The service cannot be reached at the moment: it may be restarting. */
export class UnreachableError extends CliError {}

/**
 * What answers is not the service, or does not know the key. While a service restarts, another program may have its
 * port.
 */
export class StrangerError extends CliError {}

/** Seconds until the answer to a request begins whose caller repeats it. */
const AWAITED = 30;

/** Seconds that an upload may take; the service refuses what is too large at its beginning. */
const UPLOAD_TIMEOUT = 3600;

/** Calls a running service; failures keep the service's own message. */
export class ServiceClient {
  readonly url: string;
  readonly #http: Http;
  readonly #hasKey: boolean;
  readonly #isSignedIn: boolean;
  readonly #last: string | undefined;
  readonly #flags: readonly string[];
  readonly #mayBeLimited: boolean;
  readonly #patience: Patience | undefined;

  constructor({ url, key, isSignedIn = false, fetch, last, flags = [], patience }: ServiceClientOptions) {
    this.#flags = flags;
    this.#patience = patience;
    this.#mayBeLimited = isSignedIn || key?.startsWith(KEY_PREFIX) === true;
    this.url = url.replace(/\/+$/, "");
    this.#http = new Http(url, key, { fetch });
    this.#hasKey = Boolean(key);
    this.#isSignedIn = isSignedIn;
    this.#last = last && URL.canParse(last) ? new URL(last).href.replace(/\/+$/, "") : undefined;
  }

  /** A command of `svc` for the same service, as people type it. */
  command(...words: readonly string[]): string {
    return ["npx svc", ...words, ...this.#flags].filter((word) => word !== "").join(" ");
  }

  /** Who starts a job, and in which workspace: a person who has signed in is not asked who uses the machine. */
  async starter(
    user: string,
    workspace: string | undefined,
  ): Promise<{ readonly started_by: string; readonly workspace_id: string }> {
    const who = this.#mayBeLimited ? await this.get<Who>("/whoami") : undefined;
    return {
      started_by: who && who.proven_by !== null ? who.name : user,
      workspace_id: workspace ?? who?.workspace ?? "local",
    };
  }

  /** `repeatable`: whether the request is repeated until the service answers; a caller that waits itself says no. */
  get<T>(path: string, { repeatable = true }: { readonly repeatable?: boolean } = {}): Promise<T> {
    return this.#json(path, { repeatable, ...this.#limit(repeatable) });
  }

  post<T>(path: string, json: unknown, change: Change = {}): Promise<T> {
    return this.#json(path, { method: "POST", json, ...change });
  }

  /** Sends a file as it is. */
  upload<T>(path: string, body: Blob): Promise<T> {
    return this.#json(path, { method: "POST", body, timeout: UPLOAD_TIMEOUT });
  }

  delete<T>(path: string): Promise<T> {
    return this.#json(path, { method: "DELETE" });
  }

  /**
   * The events of a stream, after the one with this id or of a request with this body, until the connection ends.
   * `repeatable`: whether the request is repeated until the service answers.
   */
  async *events(
    path: string,
    {
      after,
      json,
      repeatable = false,
    }: {
      readonly after?: string | undefined;
      readonly json?: unknown;
      readonly repeatable?: boolean;
    } = {},
  ): AsyncGenerator<ServerEventText> {
    const headers = { accept: "text/event-stream", ...(after && { "last-event-id": after }) };
    const response = await this.#send(path, {
      ...{ headers, repeatable, ...this.#limit(repeatable) },
      ...(json !== undefined && { method: "POST", json }),
    });
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
    const { body } = await this.#send(path);
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

  #json<T>(path: string, request?: HttpRequest): Promise<T> {
    return this.#patiently(request, (once) => this.#http.json<T>(path, once));
  }

  #send(path: string, request?: HttpRequest): Promise<Response> {
    return this.#patiently(request, (once) => this.#http.send(path, once));
  }

  /** A caller that waits itself hears of it early. */
  #limit(repeatable: boolean): { readonly timeout?: number } {
    return this.#patience === undefined || repeatable ? {} : { timeout: AWAITED };
  }

  async #patiently<T>(request: HttpRequest = {}, send: (once: HttpRequest) => Promise<T>): Promise<T> {
    const { repeatable = false, timeout } = request;
    const once = (seconds: number) => send({ ...request, tries: 1, timeout: seconds });
    try {
      if (this.#patience === undefined || timeout !== undefined) return await once(timeout ?? ONCE);
      return await patiently(once, { url: this.url, repeatable }, this.#patience);
    } catch (error) {
      if (!(error instanceof ClientError)) throw error;
      const { method = "GET" } = request;
      throw this.#explain(error, method !== "GET" && !repeatable);
    }
  }

  #stranger(cause?: unknown): StrangerError {
    return new StrangerError(`${this.url} does not respond like an agent control service`, {
      detail: "Check the URL: --url or SERVICE_URL.",
      cause,
    });
  }

  #unreachable(cause: unknown, isUnknown = false): UnreachableError {
    if (isUnknown)
      return new UnreachableError(`The service at ${this.url} has not answered`, {
        detail: "It may have done what was asked: check that before you repeat the command.",
        cause,
      });
    return new UnreachableError(`No service responds at ${this.url}`, {
      detail: `${this.#whereLast()}Start one with svc start, or set another URL with --url or SERVICE_URL.`,
      cause,
    });
  }

  #whereLast(): string {
    if (this.#last === undefined) return "";
    return `The last service of this folder ran ${this.#last === this.url ? "there" : `at ${this.#last}`}. `;
  }

  /** The failure in the words of the command line. `changes`: whether a repeated request could have another effect. */
  #explain(error: ClientError, changes: boolean): CliError {
    const { status, code, message, detail } = error;
    if (status === 0) return this.#unreachable(error.cause, changes && !isUnsent(error));
    if (status < 300) return this.#stranger(error);
    if (status < 400) {
      return new StrangerError(message, {
        detail: "If the service is there, set that URL with --url or SERVICE_URL.",
      });
    }
    if (status === 401 && this.#isSignedIn) {
      return new StrangerError(`Your sign-in to ${this.url} has ended`, {
        detail: "Sign in again: svc login.",
      });
    }
    if (status === 401) {
      return new StrangerError(
        `The service at ${this.url} ${this.#hasKey ? "rejected the API key" : "requires an API key"}`,
        {
          detail:
            "Set SERVICE_API_KEY to the service's key, sign in with svc login, or run this in the folder where the service was started.",
          cause: error,
        },
      );
    }
    const Failure = isAway(error) ? UnreachableError : code === "unreachable" ? StrangerError : CliError;
    return new Failure(message, detail ? { detail } : {});
  }
}

import { ANYONE, type Caller } from "../audit/caller.ts";
import type { RejectedKeys } from "../audit/rejected-keys.ts";
import { ServiceError } from "../base/errors.ts";
import type { Clients } from "./clients.ts";
import type { JobTokens, TokenScope } from "./job-tokens.ts";
import { KeyCheck } from "./key-check.ts";
import type { HttpEvent, RouteAuth } from "./route.ts";
import { WrongKeys } from "./wrong-keys.ts";

/** The owner of a session. */
export interface SignedIn {
  /** Public id of the session: not its credential. */
  readonly session: string;
  /** The name that was typed when signing in, unverified. */
  readonly says?: string;
}

/** Accepts signed-in people where a route's auth is `session`; the admin plugin provides one as `SESSIONS`. */
export interface SessionVerifier {
  /**
   * The signed-in user, or `undefined`; a string is a name that the verifier vouches for. Throws `forbidden`
   * if a write comes from another site.
   */
  verify(event: HttpEvent): SignedIn | string | undefined | Promise<SignedIn | string | undefined>;
  /** The response to someone without key or session if it is not the JSON error: the sign-in page. */
  challenge?(event: HttpEvent, error: ServiceError): Response | undefined | Promise<Response | undefined>;
}

/** Reads leave no line in the audit log. */
const READER: Caller = { kind: "key" };

/** Which token a request may have instead of the key. */
export interface AcceptedToken {
  readonly scope: TokenScope;
  readonly jobId: string;
}

export interface GateParts {
  /** All of them are accepted. */
  readonly apiKeys: readonly string[];
  readonly tokens: Pick<JobTokens, "enter">;
  readonly clock: () => Date;
  readonly clients: Clients;
  /** Counts wrong keys for the audit log. */
  readonly rejected: Pick<RejectedKeys, "add">;
  /** Resolved at each request: the plugin that provides it is set up after the gate is created. */
  readonly sessions: () => SessionVerifier | undefined;
}

/** Authenticates callers: by API key, or by session if the route accepts one. */
export class Gate {
  readonly #keys: readonly KeyCheck[];
  readonly #tokens: Pick<JobTokens, "enter">;
  readonly #wrongKeys: WrongKeys;
  readonly #clients: Clients;
  readonly #rejected: Pick<RejectedKeys, "add">;
  readonly #known = new WeakSet<object>();
  readonly #sessions: () => SessionVerifier | undefined;

  constructor({ apiKeys, tokens, clock, clients, rejected, sessions }: GateParts) {
    this.#rejected = rejected;
    this.#tokens = tokens;
    this.#keys = apiKeys.map((key) => new KeyCheck(key));
    this.#wrongKeys = new WrongKeys(clock);
    this.#clients = clients;
    this.#sessions = sessions;
  }

  /** The caller; throws `unauthorized`, `forbidden` or `rate_limited`. Synchronous for `none` and `key`. */
  enter(event: HttpEvent, auth: RouteAuth, accepted?: AcceptedToken): Caller | Promise<Caller> {
    if (auth === "none") return ANYONE;
    const key = event.req.headers.get("x-api-key") ?? (auth === "bearer" ? (bearerOf(event) ?? null) : null);
    if (key !== null) {
      this.checkKey(key, event);
      // Read now: after a client disconnects, its address is no longer available.
      return event.req.method === "GET" ? READER : { kind: "key", address: this.#clients.address(event) };
    }
    const token = accepted && bearerOf(event);
    if (token !== undefined) {
      // Not counted as a wrong key: nobody guesses a signature, and a page may send a token that has expired.
      return { ...this.#tokens.enter(token, accepted!), address: this.#clients.address(event) };
    }
    const sessions = auth === "session" ? this.#sessions() : undefined;
    if (!sessions) throw keyMissing();
    return this.#enterBySession(event, sessions);
  }

  /** Checks a key that was not sent in the header, such as in a sign-in form. */
  checkKey(key: string, event: HttpEvent): void {
    const connection = event.runtime?.node?.req.socket;
    const isRight = this.#isRight(key);
    // The common case first: a connection that has already sent the right key needs no address. A proxy's
    // connections carry the requests of many.
    if (isRight && connection && this.#known.has(connection) && !event.req.headers.has("x-forwarded-for"))
      return;

    const address = this.#clients.address(event);
    const wait = this.#wrongKeys.wait(address);
    if (wait > 0) {
      this.#rejected.add(address, true);
      throw tooManyWrongKeys(wait);
    }
    if (isRight) {
      this.#wrongKeys.right(address);
      if (connection) this.#known.add(connection);
      return;
    }
    if (connection) this.#known.delete(connection);
    const penalty = this.#wrongKeys.wrong(address);
    this.#rejected.add(address, penalty > 0);
    if (penalty > 0) throw tooManyWrongKeys(penalty);
    throw new ServiceError("unauthorized", "Invalid API key", {
      detail: "Send the service's API key in the X-API-Key header.",
    });
  }

  /** The address that a request is counted to. */
  addressOf(event: HttpEvent): string {
    return this.#clients.address(event);
  }

  /** The page, if any, that is sent instead of the JSON error. */
  challenge(event: HttpEvent, error: ServiceError): Response | undefined | Promise<Response | undefined> {
    return this.#sessions()?.challenge?.(event, error);
  }

  /** Compares all keys, whichever is right, so that timing reveals nothing. */
  #isRight(key: string): boolean {
    let isRight = false;
    for (const one of this.#keys) if (one.isRight(key)) isRight = true;
    return isRight;
  }

  async #enterBySession(event: HttpEvent, sessions: SessionVerifier): Promise<Caller> {
    const address = this.#clients.address(event);
    const signedIn = await sessions.verify(event);
    if (signedIn === undefined) throw keyMissing();
    const who = typeof signedIn === "string" ? { name: signedIn } : signedIn;
    return { kind: "session", ...who, address };
  }
}

/** The credential of RFC 6750. */
function bearerOf(event: HttpEvent): string | undefined {
  return /^bearer +(\S+)$/i.exec(event.req.headers.get("authorization") ?? "")?.[1];
}

function keyMissing(): ServiceError {
  return new ServiceError("unauthorized", "An API key is required", {
    detail: "Send the service's API key in the X-API-Key header.",
  });
}

function tooManyWrongKeys(wait: number): ServiceError {
  return new ServiceError("rate_limited", "Too many wrong API keys from this address", {
    detail: `Try again in ${wait} s with the right key.`,
    headers: { "retry-after": String(wait) },
  });
}

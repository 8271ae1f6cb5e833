import { ANYONE, type Caller } from "../audit/caller.ts";
import type { RejectedKeys } from "../audit/rejected-keys.ts";
import { ServiceError } from "../base/errors.ts";
import type { Clients } from "./clients.ts";
import { KeyCheck } from "./key-check.ts";
import type { HttpEvent, RouteAuth } from "./route.ts";
import { WrongKeys } from "./wrong-keys.ts";

/** Who has a session. */
export interface SignedIn {
  /** What the session is shown by: not what lets somebody in. */
  readonly session: string;
  /** The name that was typed when signing in, as it was typed. */
  readonly says?: string;
}

/** Accepts signed-in people where a route's auth is `session`; the admin plugin provides one as `SESSIONS`. */
export interface SessionVerifier {
  /**
   * Who is signed in, or `undefined`; a text is a name that the verifier vouches for. Throws `forbidden` where a write
   * comes from another site.
   */
  verify(event: HttpEvent): SignedIn | string | undefined | Promise<SignedIn | string | undefined>;
  /** The answer to someone without key or session where it is not the JSON error: the sign-in page. */
  challenge?(event: HttpEvent, error: ServiceError): Response | undefined | Promise<Response | undefined>;
}

/** Who only reads leaves no line in the audit log. */
const READER: Caller = { kind: "key" };

export interface GateParts {
  /** Each of them opens. */
  readonly apiKeys: readonly string[];
  readonly clock: () => Date;
  readonly clients: Clients;
  /** Counts wrong keys for the audit log. */
  readonly rejected: Pick<RejectedKeys, "add">;
  /** Asked at each request: the plugin that provides it is set up after the gate is made. */
  readonly sessions: () => SessionVerifier | undefined;
}

/** Lets callers in: by an API key, or by a session where the route takes one. */
export class Gate {
  readonly #keys: readonly KeyCheck[];
  readonly #wrongKeys: WrongKeys;
  readonly #clients: Clients;
  readonly #rejected: Pick<RejectedKeys, "add">;
  readonly #known = new WeakSet<object>();
  readonly #sessions: () => SessionVerifier | undefined;

  constructor({ apiKeys, clock, clients, rejected, sessions }: GateParts) {
    this.#rejected = rejected;
    this.#keys = apiKeys.map((key) => new KeyCheck(key));
    this.#wrongKeys = new WrongKeys(clock);
    this.#clients = clients;
    this.#sessions = sessions;
  }

  /** Who calls; throws `unauthorized` or `rate_limited`. At once for `none` and `key`. */
  enter(event: HttpEvent, auth: RouteAuth): Caller | Promise<Caller> {
    if (auth === "none") return ANYONE;
    const key = event.req.headers.get("x-api-key");
    if (key !== null) {
      this.checkKey(key, event);
      // Taken now: a client that breaks off takes its address with it.
      return event.req.method === "GET" ? READER : { kind: "key", address: this.#clients.address(event) };
    }
    const sessions = auth === "session" ? this.#sessions() : undefined;
    if (!sessions) throw keyMissing();
    return this.#enterBySession(event, sessions);
  }

  /** Checks a key that came by another way than the header, such as a sign-in form. */
  checkKey(key: string, event: HttpEvent): void {
    const connection = event.runtime?.node?.req.socket;
    const isRight = this.#isRight(key);
    // The usual case first: who has shown the right key on this connection before needs no address. A proxy's
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
    throw new ServiceError("unauthorized", "The API key is not right", {
      detail: "Send the service's API key in the X-API-Key header.",
    });
  }

  /** The address that a request is counted to. */
  addressOf(event: HttpEvent): string {
    return this.#clients.address(event);
  }

  /** The page, if any, that someone refused gets in place of the JSON error. */
  challenge(event: HttpEvent, error: ServiceError): Response | undefined | Promise<Response | undefined> {
    return this.#sessions()?.challenge?.(event, error);
  }

  /** Looks at all keys whichever is right, so that the time tells nothing. */
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

function keyMissing(): ServiceError {
  return new ServiceError("unauthorized", "This needs an API key", {
    detail: "Send the service's API key in the X-API-Key header.",
  });
}

function tooManyWrongKeys(wait: number): ServiceError {
  return new ServiceError("rate_limited", "Too many wrong API keys from this address", {
    detail: `Try again in ${wait} s with the right key.`,
    headers: { "retry-after": String(wait) },
  });
}

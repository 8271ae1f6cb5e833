import type { AccessKeys } from "../access/access-keys.ts";
import { KEY_PREFIX } from "../access/make-key.ts";
import { ANYONE, type Caller } from "../audit/caller.ts";
import type { RejectedKeys } from "../audit/rejected-keys.ts";
import { ServiceError } from "../base/errors.ts";
import type { Role, Sight } from "../models/access.ts";
import type { Clients } from "./clients.ts";
import { type JobTokens, TOKEN_PREFIX, type TokenScope } from "./job-tokens.ts";
import { KeyCheck } from "./key-check.ts";
import type { ProxiedPeople } from "./proxied-people.ts";
import type { HttpEvent, RouteAuth } from "./route.ts";
import { WrongKeys } from "./wrong-keys.ts";

/** The owner of a session. */
export interface SignedIn {
  /** Public id of the session: not its credential. */
  readonly session?: string;
  /** What the person may do. */
  readonly role: Role;
  /** What the person may see, if not everything. */
  readonly sight?: Sight;
  /** The name that the identity provider vouches for. */
  readonly name?: string;
  /** The identity provider, by its issuer. */
  readonly proven?: string;
  /** What questions can be assigned to: the names of the person and its groups. */
  readonly names?: readonly string[];
  /** The name that was typed when signing in, unverified. */
  readonly says?: string;
  /** The person, or the named key that signed in, by its id. */
  readonly access?: string;
  /** Aborts when the session ends before its time: for streams. */
  readonly over?: AbortSignal;
  /** When the person must show again who it is: streams end then, and reconnect. */
  readonly until?: Date;
}

/** Accepts signed-in people where a route's auth is `session`; the admin plugin provides one as `SESSIONS`. */
export interface SessionVerifier {
  /**
   * The signed-in user, or `undefined`: by cookie, or by a sign-in that a program sends as a key. Throws `forbidden` if a
   * write comes from another site.
   */
  verify(event: HttpEvent): SignedIn | undefined | Promise<SignedIn | undefined>;
  /** The response to someone without key or session if it is not the JSON error: the sign-in page. */
  challenge?(event: HttpEvent, error: ServiceError): Response | undefined | Promise<Response | undefined>;
}

/** What the sign-in of a person with a program begins with: it is sent as a key is. */
export const SIGN_IN_PREFIX = "svcs_";

/** The sign-in that a request sends as a key, without its prefix. */
export function sentSignIn(event: HttpEvent): string | undefined {
  const sent = event.req.headers.get("x-api-key") ?? bearerOf(event);
  return sent?.startsWith(SIGN_IN_PREFIX) ? sent.slice(SIGN_IN_PREFIX.length) : undefined;
}

/** The holder of the API key. Reads leave no line in the audit log, so they need no address. */
const ROOT: Caller = { kind: "key", role: "admin" };

/** Which token a request may have instead of the key. */
export interface AcceptedToken {
  readonly scope: TokenScope;
  readonly jobId: string;
}

export interface GateParts {
  /** All of them are accepted. */
  readonly apiKeys: readonly string[];
  readonly keys: Pick<AccessKeys, "find">;
  readonly tokens: Pick<JobTokens, "enter">;
  readonly clock: () => Date;
  readonly clients: Clients;
  /** Counts wrong keys for the audit log. */
  readonly rejected: Pick<RejectedKeys, "add">;
  /** Resolved at each request: the plugin that provides it is set up after the gate is created. */
  readonly sessions: () => SessionVerifier | undefined;
  /** People who come through a proxy, where one vouches for them. */
  readonly proxied?: ProxiedPeople | undefined;
}

/** Authenticates callers: by API key, or by session if the route accepts one. */
export class Gate {
  readonly #roots: readonly KeyCheck[];
  readonly #keys: Pick<AccessKeys, "find">;
  readonly #tokens: Pick<JobTokens, "enter">;
  readonly #wrongKeys: WrongKeys;
  readonly #clients: Clients;
  readonly #rejected: Pick<RejectedKeys, "add">;
  readonly #known = new WeakSet<object>();
  readonly #sessions: () => SessionVerifier | undefined;
  readonly #proxied: ProxiedPeople | undefined;

  constructor({ apiKeys, keys, tokens, clock, clients, rejected, sessions, proxied }: GateParts) {
    this.#proxied = proxied;
    this.#rejected = rejected;
    this.#tokens = tokens;
    this.#roots = apiKeys.map((key) => new KeyCheck(key));
    this.#keys = keys;
    this.#wrongKeys = new WrongKeys(clock);
    this.#clients = clients;
    this.#sessions = sessions;
  }

  /** The caller; throws `unauthorized`, `forbidden` or `rate_limited`. Synchronous for `none`, keys and tokens of jobs. */
  enter(event: HttpEvent, auth: RouteAuth, accepted?: AcceptedToken): Caller | Promise<Caller> {
    if (auth === "none") return ANYONE;
    const key = event.req.headers.get("x-api-key");
    if (key !== null)
      return key.startsWith(SIGN_IN_PREFIX) ? this.#enterWithProgram(event) : this.checkKey(key, event);
    const bearer = bearerOf(event);
    if (bearer?.startsWith(SIGN_IN_PREFIX)) return this.#enterWithProgram(event);
    if (bearer?.startsWith(TOKEN_PREFIX)) {
      // Not counted as a wrong key: nobody guesses a signature, and a page may send a token that has expired.
      if (accepted) return { ...this.#tokens.enter(bearer, accepted), address: this.#clients.address(event) };
    } else if (bearer !== undefined && !(auth === "session" && this.#mayBePerson(event))) {
      return this.checkKey(bearer, event);
    }
    if (auth !== "session") throw keyMissing();
    return this.#enterAsPerson(event);
  }

  /** Checks a key, from the header or from a sign-in form, and gives its holder. */
  checkKey(key: string, event: HttpEvent): Caller {
    // What looks like a named key is searched as one first, as each comparison takes its time.
    const named = key.startsWith(KEY_PREFIX) ? this.#keys.find(key) : undefined;
    const found = named ?? (this.#isRoot(key) ? ROOT : this.#keys.find(key));
    const connection = event.runtime?.node?.req.socket;
    // The common case first: a connection that has already sent the right key needs no address. A proxy's
    // connections carry the requests of many.
    const isKnown =
      connection !== undefined && this.#known.has(connection) && !event.req.headers.has("x-forwarded-for");
    if (found === undefined || !isKnown) this.#count(event, connection, found !== undefined);
    if (found === undefined)
      throw new ServiceError("unauthorized", "Invalid API key", { detail: HOW, headers: CHALLENGE_INVALID });
    if (found === "expired") throw expired();
    // Read now: after a client disconnects, its address is no longer available.
    return event.req.method === "GET" ? found : { address: this.#clients.address(event), ...found };
  }

  /** Counts a right or a wrong key; throws `rate_limited` where its address has sent too many wrong ones. */
  #count(event: HttpEvent, connection: object | undefined, isRight: boolean): void {
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
  #isRoot(key: string): boolean {
    let isRight = false;
    for (const one of this.#roots) if (one.isRight(key)) isRight = true;
    return isRight;
  }

  #mayBePerson(event: HttpEvent): boolean {
    return event.req.headers.has("cookie") || this.#proxied?.find(event) !== undefined;
  }

  /** A person who has signed in with a program. Counted as keys are: nobody may try many. */
  async #enterWithProgram(event: HttpEvent): Promise<Caller> {
    const address = this.#clients.address(event);
    const signedIn = await this.#sessions()?.verify(event);
    this.#count(event, undefined, signedIn !== undefined);
    if (signedIn !== undefined) return { kind: "session", ...signedIn, address };
    throw new ServiceError("unauthorized", "This sign-in has ended", {
      detail: "Sign in again: svc login.",
      headers: CHALLENGE_INVALID,
    });
  }

  async #enterAsPerson(event: HttpEvent): Promise<Caller> {
    const address = this.#clients.address(event);
    const signedIn = await this.#sessions()?.verify(event);
    if (signedIn !== undefined) return { kind: "session", ...signedIn, address };
    const assertion = this.#proxied?.find(event);
    if (assertion !== undefined) return this.#proxied!.enter(event, assertion);
    // Some proxies add a credential of their own beside the cookie of a session, so that one is tried first.
    const bearer = bearerOf(event);
    if (bearer === undefined || bearer.startsWith(TOKEN_PREFIX)) throw keyMissing();
    return this.checkKey(bearer, event);
  }
}

/** The credential of RFC 6750. */
function bearerOf(event: HttpEvent): string | undefined {
  return /^bearer +(\S+)$/i.exec(event.req.headers.get("authorization") ?? "")?.[1];
}

const HOW = "Send a key of the service in the X-API-Key header, or as Authorization: Bearer.";
/** What HTTP asks of a response 401 (RFC 9110 and 6750). */
const CHALLENGE = { "www-authenticate": 'Bearer realm="agent-control-service"' };
const CHALLENGE_INVALID = { "www-authenticate": `${CHALLENGE["www-authenticate"]}, error="invalid_token"` };

const MISSING = "An API key is required";

/** Whether an error says that nothing was sent that shows who the caller is. */
export function isKeyMissing({ message }: ServiceError): boolean {
  return message === MISSING;
}

function keyMissing(): ServiceError {
  return new ServiceError("unauthorized", MISSING, { detail: HOW, headers: CHALLENGE });
}

function expired(): ServiceError {
  return new ServiceError("unauthorized", "The key has expired", {
    detail: "Ask an administrator of the service for a new one.",
    headers: CHALLENGE_INVALID,
  });
}

function tooManyWrongKeys(wait: number): ServiceError {
  return new ServiceError("rate_limited", "Too many wrong API keys from this address", {
    detail: `Try again in ${wait} s with the right key.`,
    headers: { "retry-after": String(wait) },
  });
}

import { createHmac, hash, randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { AccessKeys } from "../../core/access/access-keys.ts";
import type { PersonProvider, ProviderTokens, Vouched } from "../../core/access/identity-provider.ts";
import type { People } from "../../core/access/people.ts";
import { nameOfPerson } from "../../core/access/role-table.ts";
import { ServiceError } from "../../core/base/errors.ts";
import { getOrMake } from "../../core/base/get-or-make.ts";
import type { Logger } from "../../core/base/log.ts";
import { Seal } from "../../core/base/seal.ts";
import type { Clients } from "../../core/http/clients.ts";
import { type SessionVerifier, type SignedIn, sentSignIn } from "../../core/http/gate.ts";
import type { HttpEvent } from "../../core/http/route.ts";
import { assertSameOrigin, isSafeMethod, type OwnAddress } from "../../core/http/same-origin.ts";
import type { ServiceState } from "../../core/http/service-state.ts";
import type { ServiceKeys } from "../../core/service/keys.ts";
import type { Store, Transaction } from "../../core/store/store.ts";
import { readCookie } from "./cookies.ts";
import type { AdminSession } from "./session-table.ts";

export const SESSION_COOKIE = "svc-admin";
/** Sent by pages that refresh themselves: not user activity. */
const UNATTENDED = "x-unattended";
const MINUTE = 60_000;
/** Milliseconds after which the identity provider is asked again whether it vouches for a person. */
const RECHECK = 60_000;
/** Milliseconds that an instance has for that; then another one may ask. */
const CHECKING = 20_000;
/** Topic of hints about sessions that have ended. */
const HINT = "session";

export interface SessionsParts {
  readonly access: Pick<AccessKeys, "callerOf">;
  readonly people: Pick<People, "enter">;
  /** Where people sign in; `undefined` where they do not. */
  readonly provider: PersonProvider | undefined;
  readonly keys: ServiceKeys;
  /** Longest life of a session. */
  readonly hours: number;
  /** Longest inactivity, 0 for no limit. */
  readonly idleMinutes: number;
  readonly clock: () => Date;
  readonly clients: Clients;
  readonly state: Pick<ServiceState, "publicUrl">;
  readonly store: Store;
  readonly log: Logger;
}

/** Who is signed in, with the public id of the session. */
export type OwnSession = SignedIn & { readonly session: string };

/** Whom a session is for. */
export interface SessionOwner {
  readonly name?: string;
  /** The key that was shown. */
  readonly key?: string;
  /** The named key, by its id. */
  readonly access?: string;
  /** Whom the identity provider vouches for. */
  readonly vouched?: Vouched;
  /** The session of a browser, of nobody whom a provider vouches for: the new one has its owner, and ends when it would. */
  readonly like?: Readonly<AdminSession>;
  /** The program that the session is for, instead of a browser. */
  readonly program?: string;
  /** Whether the program fetches it with a code. */
  readonly unfetched?: true;
}

/** A session that is not stored yet. */
export interface NewSession {
  readonly row: AdminSession;
  readonly value: string;
  readonly maxAge: number;
  readonly signedIn: OwnSession;
}

/** What this instance knows of a session that it has seen. */
interface Seen {
  /** When the person last did something here. */
  at: number;
  /** The last time that was stored. */
  stored: number;
  /** For what ends with the session. */
  readonly over: AbortController;
}

/**
 * Sessions of people. A cookie carries a random value, whose digest names the session in the store: a restart
 * ends none, and they are the same on every instance. They end when somebody ends them, after inactivity, after a
 * maximum duration, and with the key that opened them.
 */
export class Sessions implements SessionVerifier {
  readonly #parts: SessionsParts;
  /** Fingerprints of the valid keys, with each RSA key. */
  readonly #marks: readonly string[];
  /** By the ids of sessions. */
  readonly #seen = new Map<string, Seen>();
  readonly #seal: Seal;
  /** Sessions whose person is being checked here, by id. */
  readonly #checks = new Map<string, Promise<AdminSession | undefined>>();
  readonly #sweep: NodeJS.Timeout;
  readonly #stopHints: () => void;

  constructor(parts: SessionsParts) {
    this.#parts = parts;
    const { apiKey, previousApiKey, rsaPrivateKeys } = parts.keys;
    this.#seal = new Seal(rsaPrivateKeys, "tokens of a session");
    const apiKeys = [apiKey, ...(previousApiKey === undefined ? [] : [previousApiKey])];
    // The text of a key may have had a line break at its end, or none, when it was the present one.
    const pems = rsaPrivateKeys.flatMap((pem) => [pem, pem.trim(), `${pem.trim()}\n`]);
    this.#marks = pems.flatMap((pem) => apiKeys.map((key) => markOf(key, pem)));
    this.#sweep = setInterval(() => void this.#tidy(), MINUTE / 2).unref();
    this.#stopHints = parts.store.hints.on((hint) => {
      if (hint === "all") void this.#tidy();
      else if (hint.topic === HINT) for (const id of hint.ids) this.#forget(id);
    });
  }

  /** Removes the sessions of earlier runs that have ended, also with the key that opened them. */
  async load(): Promise<void> {
    for (const row of await this.#rows()) if (!this.#isValid(row)) await this.#table.remove(row.id);
  }

  /**
   * A session with the key that was shown, or by a link, which the caller stores; the value is for the cookie, or for the
   * program.
   */
  make(event: HttpEvent, owner: SessionOwner): NewSession {
    const { like, vouched, program, unfetched, key } = owner;
    const { name = "", access } = like ?? owner;
    const value = randomBytes(32).toString("base64url");
    const maxAge = Math.round(this.#parts.hours * 3600);
    const now = this.#now();
    const row: AdminSession = {
      id: toId(value),
      name: vouched === undefined ? name : nameOfPerson(vouched.person),
      by: like?.by ?? (vouched !== undefined ? "person" : key === undefined ? "link" : "key"),
      address: this.#parts.clients.address(event),
      key: like?.key ?? markOf(key ?? this.#parts.keys.apiKey, this.#parts.keys.rsaPrivateKeys[0]),
      ...(program !== undefined && { program }),
      ...(unfetched && { unfetched }),
      ...(access !== undefined && { access }),
      ...(vouched && { person: vouched.person, tokens: this.#close(vouched.tokens), checked: now }),
      since: now,
      seen: now,
      until: Math.min(now + maxAge * 1000, like?.until ?? Number.POSITIVE_INFINITY),
    };
    return { row, value, maxAge, signedIn: this.#toSignedIn(row) };
  }

  async verify(event: HttpEvent): Promise<OwnSession | undefined> {
    const id = idOf(event, this.#parts);
    // Read each time: another instance may have ended it.
    const isProgram = sentSignIn(event) !== undefined;
    const read = id === undefined ? undefined : await this.#table.peek(id);
    // A cookie's value is no key, and a program's is no cookie.
    const found = (read?.program !== undefined) === isProgram ? read : undefined;
    const row = found && this.#isValid(found) ? await this.#stillVouched(found) : undefined;
    if (!row) {
      if (id !== undefined) this.#forget(id);
      return undefined;
    }
    if (!isProgram && !isSafeMethod(event.req.method)) assertSameOrigin(event, this.#parts);
    this.#see(row, event);
    return this.#toSignedIn(row);
  }

  /** The open sessions, newest first. */
  async list(): Promise<AdminSession[]> {
    const open = (await this.#rows()).filter((row) => this.#isValid(row));
    return open.map((row) => ({ ...row, seen: this.#lastSeen(row) })).sort((a, b) => b.since - a.since);
  }

  /** The session of a browser that sent a request. */
  async ofBrowser(event: HttpEvent): Promise<Readonly<AdminSession> | undefined> {
    const id = this.current(event);
    const row = id === undefined ? undefined : await this.#table.peek(id);
    return row?.program === undefined ? row : undefined;
  }

  /** Hands a session to its program: resolves with whether it is open, and was not fetched before, at any instance. */
  fetch(value: string): Promise<boolean> {
    const id = toId(value);
    return this.#parts.store.transaction(async (tx) => {
      const row = await tx.get("AdminSession", id);
      if (row?.unfetched === undefined || !this.#isValid(row)) return false;
      await tx.change("AdminSession", id, ({ unfetched: _, ...fetched }) => fetched);
      return true;
    });
  }

  /** Id of the session of a request that was verified; nothing for a request with a key. */
  current(event: HttpEvent): string | undefined {
    const id = idOf(event, this.#parts);
    return id !== undefined && this.#seen.has(id) ? id : undefined;
  }

  /** Aborts when the session of a request ends, on whichever instance; nothing for a request with a key. */
  over(event: HttpEvent): AbortSignal | undefined {
    return this.#seen.get(idOf(event, this.#parts) ?? "")?.over.signal;
  }

  /** Removes a session inside a transaction; resolves with whether it was open. `ended` is to be called once it is stored. */
  async remove(tx: Transaction, id: string): Promise<boolean> {
    const row = await tx.get("AdminSession", id);
    await tx.remove("AdminSession", id);
    return row !== undefined && this.#isValid(row);
  }

  /** Ends what belongs to a session that was removed, on every instance. */
  ended(id: string): void {
    this.#forget(id);
    this.#parts.store.hints.tell(HINT, [id]);
  }

  close(): void {
    clearInterval(this.#sweep);
    this.#stopHints();
  }

  #forget(id: string): void {
    this.#seen.get(id)?.over.abort();
    this.#seen.delete(id);
  }

  #isValid(row: AdminSession): boolean {
    const { idleMinutes } = this.#parts;
    const now = this.#now();
    // Nobody else sits down in front of a program.
    const isIdle =
      row.program === undefined && idleMinutes > 0 && this.#lastSeen(row) + idleMinutes * MINUTE <= now;
    if (row.person !== undefined) {
      return row.until > now && !isIdle && row.person.issuer === this.#parts.provider?.issuer;
    }
    const isOpen =
      row.access === undefined ? this.#marks.includes(row.key) : this.#parts.access.callerOf(row.access);
    return row.until > now && !isIdle && Boolean(isOpen);
  }

  #lastSeen({ id, seen }: AdminSession): number {
    return Math.max(seen, this.#seen.get(id)?.at ?? 0);
  }

  /**
   * Stored once a minute, or more often where the idle limit is short: a crash, or another instance, can take a session
   * as inactive for that much longer.
   */
  #see({ id, seen }: AdminSession, { req }: HttpEvent): void {
    const known = getOrMake(this.#seen, id, () => ({ at: seen, stored: seen, over: new AbortController() }));
    // An event stream is opened by the page too.
    if (req.headers.has(UNATTENDED) || req.headers.get("accept") === "text/event-stream") return;
    const { idleMinutes, log } = this.#parts;
    const now = this.#now();
    known.at = now;
    const pause = idleMinutes > 0 ? Math.min(MINUTE, (idleMinutes * MINUTE) / 4) : MINUTE;
    if (now - known.stored < pause) return;
    known.stored = now;
    this.#table
      .change(id, (row) => ({ ...row, seen: Math.max(row.seen, now) }))
      .catch((error: unknown) => log.debug("a session's last use could not be stored", { error }));
  }

  /** Removes the sessions that have ended, and ends here what belongs to those that others have ended. */
  async #tidy(): Promise<void> {
    try {
      const { idleMinutes } = this.#parts;
      const now = this.#now();
      const idle = { seen: { lt: now - idleMinutes * MINUTE + 1 } };
      // By the index alone: a service that is not in use reads nothing.
      const open = new Set(await this.#table.ids());
      const due = [
        ...(await this.#table.ids({ where: { until: { lt: now + 1 } } })),
        ...(idleMinutes > 0 ? await this.#table.ids({ where: idle }) : []),
      ];
      for (const id of new Set(due)) {
        const row = await this.#table.get(id);
        if (row && this.#isValid(row)) continue;
        open.delete(id);
        // Another instance may have seen it in use since.
        if (row && !this.#isValid({ ...row, seen: row.seen + MINUTE })) await this.#table.remove(id);
      }
      for (const id of this.#seen.keys()) if (!open.has(id)) this.#forget(id);
    } catch (error) {
      this.#parts.log.debug("ended sessions could not be removed", { error });
    }
  }

  async #rows(): Promise<AdminSession[]> {
    return (await this.#table.list({ limit: Number.POSITIVE_INFINITY })).items;
  }

  /**
   * The session of a person, once the provider has said within a minute that it vouches for that person; `undefined`, and
   * ended, where it no longer does. Of several instances one asks: a token to ask with may be valid once.
   */
  async #stillVouched(row: Readonly<AdminSession>): Promise<Readonly<AdminSession> | undefined> {
    if (row.person === undefined || !this.#isDue(row)) return row;
    const { id } = row;
    const check = getOrMake(this.#checks, id, () => this.#check(id).finally(() => this.#checks.delete(id)));
    return check;
  }

  #isDue({ checked = 0 }: Readonly<AdminSession>): boolean {
    return Math.abs(this.#now() - checked) >= RECHECK;
  }

  async #check(id: string): Promise<AdminSession | undefined> {
    const { provider, log } = this.#parts;
    const row = await this.#claim(id);
    if (!row || !this.#isDue(row)) return row;
    const { person, tokens = "" } = row;
    const opened = this.#seal.open(tokens);
    let vouched: Vouched | undefined;
    try {
      vouched =
        opened === undefined || person === undefined
          ? undefined
          : await provider?.check(person, JSON.parse(opened) as ProviderTokens);
    } catch (error) {
      log.warn("whether a person may still be here cannot be checked", { error });
      await this.#table.change(id, (current) => ({ ...current, checking: 0 })).catch(() => {});
      throw error;
    }
    if (!vouched) {
      await this.#table.remove(id);
      this.ended(id);
      return undefined;
    }
    const now = {
      person: vouched.person,
      tokens: this.#close(vouched.tokens),
      checked: this.#now(),
      checking: 0,
    };
    return this.#table.change(id, (current) => ({ ...current, ...now }));
  }

  /** The session, for this instance alone to check; or once another one has. */
  async #claim(id: string): Promise<AdminSession | undefined> {
    for (let tries = 0; tries < 50; tries++) {
      if (tries > 0) await delay(200);
      const before = await this.#table.get(id);
      if (!before || !this.#isDue(before)) return before;
      let isOurs = false;
      const row = await this.#table
        .change(id, (current) => {
          const now = this.#now();
          isOurs = (current.checking ?? 0) <= now && this.#isDue(current);
          return isOurs ? { ...current, checking: now + CHECKING } : current;
        })
        .catch(() => undefined);
      if (isOurs || !row) return row;
    }
    throw new ServiceError("unavailable", "Whether you may still be here is being checked", {
      detail: "Try again.",
      headers: { "retry-after": "5" },
    });
  }

  #close(tokens: ProviderTokens): string {
    return this.#seal.close(JSON.stringify(tokens));
  }

  /** Its owner: the holder of the API key, under a name that is not verified, or that of a named key. */
  #toSignedIn({ id, name, access, person, checked = 0 }: Readonly<AdminSession>): OwnSession {
    const session = shortId(id);
    if (person !== undefined) {
      const { kind: _kind, role = "viewer", over: _over, ...who } = this.#parts.people.enter(person);
      return { session, role, ...who, until: new Date(checked + RECHECK) };
    }
    if (access === undefined) return { session, role: "admin", ...(name !== "" && { says: name }) };
    const { kind: _, role = "viewer", ...holder } = this.#parts.access.callerOf(access) ?? { kind: "key" };
    return { session, role, ...holder };
  }

  get #table() {
    return this.#parts.store.table("AdminSession");
  }

  #now(): number {
    return this.#parts.clock().getTime();
  }
}

/** Fingerprint of a key; without the RSA key it cannot be used to guess a weak key. */
function markOf(apiKey: string, rsaPrivateKey: string): string {
  return createHmac("sha256", rsaPrivateKey).update(`admin session\n${apiKey}`).digest("base64url");
}

function toId(value: string): string {
  return hash("sha256", value, "base64url");
}

/** Id of the session that a request names, which need not exist. */
function idOf(event: HttpEvent, own: OwnAddress): string | undefined {
  const value = sentSignIn(event) ?? readCookie(event, own, SESSION_COOKIE);
  return value === undefined ? undefined : toId(value);
}

/** Public id of a session. */
export function shortId(id: string): string {
  return id.slice(0, 6);
}

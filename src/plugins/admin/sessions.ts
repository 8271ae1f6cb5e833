import { createHmac, hash, randomBytes } from "node:crypto";
import type { AccessKeys } from "../../core/access/access-keys.ts";
import { getOrMake } from "../../core/base/get-or-make.ts";
import type { Logger } from "../../core/base/log.ts";
import type { Clients } from "../../core/http/clients.ts";
import type { SessionVerifier, SignedIn } from "../../core/http/gate.ts";
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
/** Topic of hints about sessions that have ended. */
const HINT = "session";

export interface SessionsParts {
  readonly access: Pick<AccessKeys, "callerOf">;
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
  /** Fingerprints of the valid keys. */
  readonly #marks: readonly string[];
  /** By the ids of sessions. */
  readonly #seen = new Map<string, Seen>();
  readonly #sweep: NodeJS.Timeout;
  readonly #stopHints: () => void;

  constructor(parts: SessionsParts) {
    this.#parts = parts;
    const { apiKey, previousApiKey } = parts.keys;
    this.#marks = [apiKey, ...(previousApiKey === undefined ? [] : [previousApiKey])].map((key) =>
      this.#markOf(key),
    );
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
   * A session with the key that was shown, or by a link, which the caller stores; the value is for the
   * cookie.
   */
  make(
    event: HttpEvent,
    { name = "", key, access }: { readonly name?: string; readonly key?: string; readonly access?: string },
  ): NewSession {
    const value = randomBytes(32).toString("base64url");
    const maxAge = Math.round(this.#parts.hours * 3600);
    const now = this.#now();
    const row: AdminSession = {
      id: toId(value),
      name,
      by: key === undefined ? "link" : "key",
      address: this.#parts.clients.address(event),
      key: this.#markOf(key ?? this.#parts.keys.apiKey),
      ...(access !== undefined && { access }),
      since: now,
      seen: now,
      until: now + maxAge * 1000,
    };
    return { row, value, maxAge, signedIn: this.#toSignedIn(row) };
  }

  async verify(event: HttpEvent): Promise<OwnSession | undefined> {
    const id = idOf(event, this.#parts);
    // Read each time: another instance may have ended it.
    const row = id === undefined ? undefined : await this.#table.peek(id);
    if (!row || !this.#isValid(row)) {
      if (id !== undefined) this.#forget(id);
      return undefined;
    }
    if (!isSafeMethod(event.req.method)) assertSameOrigin(event, this.#parts);
    this.#see(row, event);
    return this.#toSignedIn(row);
  }

  /** The open sessions, newest first. */
  async list(): Promise<AdminSession[]> {
    const open = (await this.#rows()).filter((row) => this.#isValid(row));
    return open.map((row) => ({ ...row, seen: this.#lastSeen(row) })).sort((a, b) => b.since - a.since);
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
    const isIdle = idleMinutes > 0 && this.#lastSeen(row) + idleMinutes * MINUTE <= now;
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

  /** Its owner: the holder of the API key, under a name that is not verified, or that of a named key. */
  #toSignedIn({ id, name, access }: AdminSession): OwnSession {
    const session = shortId(id);
    if (access === undefined) return { session, role: "admin", ...(name !== "" && { says: name }) };
    const { kind: _, role = "viewer", ...holder } = this.#parts.access.callerOf(access) ?? { kind: "key" };
    return { session, role, ...holder };
  }

  get #table() {
    return this.#parts.store.table("AdminSession");
  }

  /** Fingerprint of a key; without the RSA key it cannot be used to guess a weak key. */
  #markOf(apiKey: string): string {
    const { rsaPrivateKey } = this.#parts.keys;
    return createHmac("sha256", rsaPrivateKey).update(`admin session\n${apiKey}`).digest("base64url");
  }

  #now(): number {
    return this.#parts.clock().getTime();
  }
}

function toId(value: string): string {
  return hash("sha256", value, "base64url");
}

/** Id of the session that a request names, which need not exist. */
function idOf(event: HttpEvent, own: OwnAddress): string | undefined {
  const value = readCookie(event, own, SESSION_COOKIE);
  return value === undefined ? undefined : toId(value);
}

/** Public id of a session. */
export function shortId(id: string): string {
  return id.slice(0, 6);
}

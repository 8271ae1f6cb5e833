import { createHmac, hash, randomBytes } from "node:crypto";
import type { Logger } from "../../core/base/log.ts";
import type { Clients } from "../../core/http/clients.ts";
import type { SessionVerifier, SignedIn } from "../../core/http/gate.ts";
import type { HttpEvent } from "../../core/http/route.ts";
import type { ServiceState } from "../../core/http/service-state.ts";
import type { ServiceKeys } from "../../core/service/keys.ts";
import type { Store } from "../../core/store/store.ts";
import { readCookie } from "./cookies.ts";
import { assertSameOrigin, isSafeMethod } from "./same-origin.ts";
import type { AdminSession } from "./session-table.ts";

export const SESSION_COOKIE = "svc-admin";
/** Sent by pages that refresh themselves: not user activity. */
const UNATTENDED = "x-unattended";
const MINUTE = 60_000;

export interface SessionsParts {
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

/** A session as stored, and what depends on it. */
interface Open {
  readonly row: AdminSession;
  seen: number;
  /** `seen` as the store has it. */
  stored: number;
  readonly over: AbortController;
}

/**
 * Sessions of people. A cookie carries a random value, whose digest names the session in the store: a restart
 * ends none. They end when somebody ends them, after inactivity, after a maximum duration, and with the key
 * that opened them.
 */
export class Sessions implements SessionVerifier {
  readonly #parts: SessionsParts;
  readonly #open = new Map<string, Open>();
  readonly #sweep: NodeJS.Timeout;

  constructor(parts: SessionsParts) {
    this.#parts = parts;
    this.#sweep = setInterval(() => void this.#removeEnded(), MINUTE / 2).unref();
  }

  /** Reads the sessions of earlier runs; those whose key is no longer valid are removed. */
  async load(): Promise<void> {
    const { apiKey, previousApiKey } = this.#parts.keys;
    const marks = [apiKey, previousApiKey].map((key) => key !== undefined && this.#markOf(key));
    const table = this.#parts.store.table("AdminSession");
    for (const id of await table.ids()) {
      const row = await table.get(id);
      if (!row || !marks.includes(row.key)) await table.remove(id);
      else this.#open.set(id, { row, seen: row.seen, stored: row.seen, over: new AbortController() });
    }
    await this.#removeEnded();
  }

  /** Opens a session with the key that was shown, or by a link; the value is for the cookie. */
  async create(
    event: HttpEvent,
    { name = "", key }: { readonly name?: string; readonly key?: string },
  ): Promise<{ readonly value: string; readonly maxAge: number; readonly signedIn: SignedIn }> {
    const value = randomBytes(32).toString("base64url");
    const maxAge = Math.round(this.#parts.hours * 3600);
    const now = this.#now();
    const row: AdminSession = {
      id: toId(value),
      name,
      by: key === undefined ? "link" : "key",
      address: this.#parts.clients.address(event),
      key: this.#markOf(key ?? this.#parts.keys.apiKey),
      since: now,
      seen: now,
      until: now + maxAge * 1000,
    };
    await this.#parts.store.table("AdminSession").insert(row);
    this.#open.set(row.id, { row, seen: now, stored: now, over: new AbortController() });
    return { value, maxAge, signedIn: toSignedIn(row) };
  }

  verify(event: HttpEvent): SignedIn | undefined {
    const session = this.#find(event);
    if (!session) return undefined;
    if (!isSafeMethod(event.req.method)) assertSameOrigin(event, this.#parts);
    this.#see(session, event);
    return toSignedIn(session.row);
  }

  /** The open sessions, newest first. */
  list(): AdminSession[] {
    const open = [...this.#open.values()].filter((session) => !this.#hasEnded(session));
    return open.map(({ row, seen }) => ({ ...row, seen })).sort((a, b) => b.since - a.since);
  }

  /** The session of a request. */
  current(event: HttpEvent): AdminSession | undefined {
    return this.#find(event)?.row;
  }

  /** Aborts when the session of a request ends; nothing for a request with a key. */
  over(event: HttpEvent): AbortSignal | undefined {
    return this.#find(event)?.over.signal;
  }

  /** Ends a session, wherever its cookie is; resolves with whether it was open. */
  async end(id: string): Promise<boolean> {
    const session = this.#open.get(id);
    this.#open.delete(id);
    session?.over.abort();
    return (await this.#parts.store.table("AdminSession").remove(id)) && session !== undefined;
  }

  close(): void {
    clearInterval(this.#sweep);
  }

  #find(event: HttpEvent): Open | undefined {
    const value = readCookie(event, SESSION_COOKIE);
    const session = value === undefined ? undefined : this.#open.get(toId(value));
    return session && !this.#hasEnded(session) ? session : undefined;
  }

  #hasEnded({ row, seen }: Open): boolean {
    const { idleMinutes } = this.#parts;
    const now = this.#now();
    return row.until <= now || (idleMinutes > 0 && seen + idleMinutes * MINUTE <= now);
  }

  /** Stored once a minute: a crash can only make a session seem inactive for up to a minute longer. */
  #see(session: Open, { req }: HttpEvent): void {
    // An event stream is opened by the page too.
    if (req.headers.has(UNATTENDED) || req.headers.get("accept") === "text/event-stream") return;
    const now = this.#now();
    session.seen = now;
    if (now - session.stored < MINUTE) return;
    session.stored = now;
    this.#parts.store
      .table("AdminSession")
      .change(session.row.id, (row) => ({ ...row, seen: now }))
      .catch((error: unknown) =>
        this.#parts.log.debug("a session's last use could not be stored", { error }),
      );
  }

  async #removeEnded(): Promise<void> {
    for (const [id, session] of this.#open) {
      if (!this.#hasEnded(session)) continue;
      await this.end(id).catch((error: unknown) =>
        this.#parts.log.debug("an ended session could not be removed", { error }),
      );
    }
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

/** Public id of a session. */
export function shortId(id: string): string {
  return id.slice(0, 6);
}

/** The owner of the session; the name is unverified. */
function toSignedIn({ id, name }: AdminSession): SignedIn {
  return { session: shortId(id), ...(name !== "" && { says: name }) };
}

import { hash } from "node:crypto";
import type { AgentRegistry } from "../agents/registry.ts";
import type { AuditLog } from "../audit/audit-log.ts";
import { type Caller, nameOf } from "../audit/caller.ts";
import { ServiceError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { StartTimer } from "../base/timer.ts";
import { WallTimers } from "../base/wall-timers.ts";
import type { Ledger } from "../entities/ledger.ts";
import type { Access, NewAccess, StoredAccess } from "../models/access.ts";
import type { Store } from "../store/store.ts";
import { assertAgentsExist } from "./assert-agents-exist.ts";
import type { DeclaredKey } from "./declared-keys.ts";
import { digestOf, makeKey } from "./make-key.ts";
import { Mirror } from "./mirror.ts";
import { sightOf } from "./sight-of.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

export interface AccessParts {
  readonly store: Store;
  readonly ledger: Ledger;
  readonly audit: AuditLog;
  readonly log: Logger;
  readonly clock: () => Date;
  readonly declared: readonly DeclaredKey[];
  readonly agents: Pick<AgentRegistry, "get">;
}

/** A named key as requests are compared with it. */
interface Holder {
  readonly id: string;
  readonly caller: Caller;
  /** Milliseconds since the epoch. */
  readonly expires: number;
  readonly isStored: boolean;
  readonly over: AbortController;
  /** The hour of the last use that is stored. */
  usedHour: number;
}

interface Accepted {
  readonly holder: Holder;
  /** Milliseconds since the epoch, for a key that was rotated. */
  readonly until: number;
}

/**
 * The named keys: those that the code declares, and those in the store. Every instance has them in memory, so that a
 * request waits for no store; one that is removed is out everywhere within seconds.
 */
export class AccessKeys {
  readonly #parts: AccessParts;
  /**
   * By the SHA-256 of the key, in base64url. Finding one takes time that depends on the digest of what was sent, which nobody can
   * bring closer to another one step by step: it reveals nothing about a key.
   */
  #accepted = new Map<string, Accepted>();
  #holders = new Map<string, Holder>();
  readonly #declared: readonly Holder[];
  readonly #mirror: Mirror<"Access">;
  readonly #startTimer: StartTimer;
  #stopExpiring = (): void => {};
  readonly #isShared: boolean;

  constructor(parts: AccessParts) {
    this.#parts = parts;
    this.#startTimer = new WallTimers(parts.clock).start;
    this.#isShared = parts.store.isShared === true;
    this.#declared = parts.declared.map((one) => ({
      id: `declared:${one.name}`,
      caller: toCaller(`declared:${one.name}`, one),
      expires: one.expires ?? Number.POSITIVE_INFINITY,
      isStored: false,
      over: new AbortController(),
      usedHour: 0,
    }));
    for (const { agents, name } of parts.declared)
      assertAgentsExist(agents, parts.agents, `The key "${name}"`);
    this.#index([]);
    const { store, log } = parts;
    const onRows = (rows: readonly StoredAccess[]): void => this.#index(rows);
    this.#mirror = new Mirror({ store, log, table: "Access", hint: "access", rows: "this key", onRows });
  }

  /** Reads the stored keys, and follows what becomes of them. */
  start(): Promise<void> {
    return this.#mirror.start();
  }

  close(): void {
    this.#mirror.close();
    this.#stopExpiring();
  }

  /** The holder of a key: nobody, or why it no longer works. */
  find(key: string): Caller | "expired" | undefined {
    // Each request with a named key comes here, and this form of the digest takes half the time of the stored one.
    const found = this.#accepted.get(hash("sha256", key, "base64url"));
    if (!found) return undefined;
    const { holder, until } = found;
    const now = this.#parts.clock().getTime();
    if (holder.expires <= now || until <= now) return "expired";
    // A service of its own knows of each change.
    if (this.#isShared && holder.isStored) this.#mirror.assertFresh();
    const hour = now - (now % HOUR);
    if (holder.isStored && holder.usedHour < hour) this.#noteUse(holder, hour);
    return holder.caller;
  }

  /** The holder of the key with an id while it is valid: for what was made with it. */
  callerOf(id: string): Caller | undefined {
    const holder = this.#holders.get(id);
    if (!holder || holder.expires <= this.#parts.clock().getTime()) return undefined;
    if (holder.isStored) this.#mirror.assertFresh();
    return holder.caller;
  }

  /** Whether there is any named key. */
  get isUsed(): boolean {
    return this.#holders.size > 0;
  }

  /** All named keys, the declared ones first. */
  async list(): Promise<Access[]> {
    const { items } = await this.#table.list({ limit: Number.POSITIVE_INFINITY });
    const stored = items.map(toShown).sort((a, b) => (a.name < b.name ? -1 : 1));
    return [...this.#parts.declared.map(toShownDeclared), ...stored];
  }

  /** Makes a key; it is in the result and nowhere else. */
  async add(
    { name, role, agents, workspace, expires_at = null }: NewAccess & { readonly expires_at?: string | null },
    by: Caller,
  ): Promise<{ readonly key: string; readonly access: Access }> {
    assertAgentsExist(agents, this.#parts.agents, `The key "${name}"`);
    if (this.#parts.declared.some((one) => one.name === name)) throw nameTaken(name);
    const { id, key } = makeKey();
    const row = await this.#parts.ledger.write(async (unit) => {
      if ((await unit.tx.ids("Access", "name", name)).length > 0) throw nameTaken(name);
      const made: StoredAccess = {
        ...{ id, name, role, agents: agents ?? null, workspace: workspace ?? null, expires_at },
        created_at: unit.now,
        created_by: nameOf(by),
        used_at: null,
        hash: digestOf(key),
        previous: [],
      };
      await unit.tx.insert("Access", made);
      const after = { name, role, agents, workspace, expires_at };
      await this.#parts.audit.write(unit, {
        by,
        action: "access.add",
        target: { kind: "access", id },
        after,
      });
      return made;
    });
    await this.#mirror.changed(id);
    return { key, access: toShown(row) };
  }

  /** Makes another key for the same access; those that were replaced work for a day. */
  async rotate(idOrName: string, by: Caller): Promise<{ readonly key: string; readonly access: Access }> {
    const { id, name } = await this.#get(idOrName);
    const { key } = makeKey(id);
    const row = await this.#parts.ledger.write(async (unit) => {
      const until = new Date(Date.parse(unit.now) + DAY).toISOString();
      if (!(await unit.tx.get("Access", id))) throw notFound(idOrName);
      const changed = await unit.tx.change("Access", id, (row) => ({
        ...row,
        hash: digestOf(key),
        // Of a repeated request, the first key may never have arrived: the one in use works on.
        previous: [...row.previous.filter((one) => one.until > unit.now), { hash: row.hash, until }],
      }));
      const after = { name, previous_until: until };
      await this.#parts.audit.write(unit, {
        ...{ by, action: "access.rotate", target: { kind: "access", id }, after },
      });
      return changed;
    });
    await this.#mirror.changed(id);
    return { key, access: toShown(row) };
  }

  /** Removes a key: requests with it are refused from now on, and its streams end. */
  async remove(idOrName: string, by: Caller): Promise<Access> {
    const { id } = await this.#get(idOrName);
    const row = await this.#parts.ledger.write(async (unit) => {
      const found = await unit.tx.get("Access", id);
      if (!found) throw notFound(idOrName);
      await unit.tx.remove("Access", id);
      const { name, role, agents, workspace } = found;
      const before = { name, role, agents, workspace };
      await this.#parts.audit.write(unit, {
        ...{ by, action: "access.remove", target: { kind: "access", id }, before },
      });
      return found;
    });
    await this.#mirror.changed(id);
    return toShown(row);
  }

  async #get(idOrName: string): Promise<StoredAccess> {
    const direct = await this.#table.get(idOrName);
    if (direct) return direct;
    const { items } = await this.#table.list({ where: { name: idOrName }, limit: 1 });
    if (items[0]) return items[0];
    if (this.#parts.declared.some(({ name }) => name === idOrName || `declared:${name}` === idOrName)) {
      throw new ServiceError("invalid_transition", `The key "${idOrName}" is declared in the code`, {
        detail: "Change the option access.keys, and start the service with it.",
      });
    }
    throw notFound(idOrName);
  }

  #index(rows: readonly StoredAccess[]): void {
    const before = this.#holders;
    const holders = new Map<string, Holder>();
    const accepted = new Map<string, Accepted>();
    for (const [at, holder] of this.#declared.entries()) {
      holders.set(holder.id, holder);
      accepted.set(inBase64(this.#parts.declared[at]!.sha256), { holder, until: Number.POSITIVE_INFINITY });
    }
    for (const row of rows) {
      const holder = before.get(row.id) ?? toHolder(row);
      holders.set(row.id, holder);
      accepted.set(inBase64(row.hash), { holder, until: Number.POSITIVE_INFINITY });
      for (const { hash, until } of row.previous)
        accepted.set(inBase64(hash), { holder, until: Date.parse(until) });
    }
    this.#holders = holders;
    this.#accepted = accepted;
    for (const [id, { over }] of before) if (!holders.has(id)) over.abort();
    this.#endExpired();
  }

  /** Ends what belongs to keys that have expired, and comes back when the next one does. */
  #endExpired(): void {
    this.#stopExpiring();
    const now = this.#parts.clock().getTime();
    let next = Number.POSITIVE_INFINITY;
    for (const { expires, over } of this.#holders.values()) {
      if (expires <= now) over.abort();
      else next = Math.min(next, expires);
    }
    if (next === Number.POSITIVE_INFINITY) return;
    this.#stopExpiring = this.#startTimer(next - now, () => this.#endExpired());
  }

  /** Once an hour for each key: who no longer needs one is seen by that. */
  #noteUse(holder: Holder, hour: number): void {
    holder.usedHour = hour;
    const used_at = new Date(hour).toISOString();
    this.#table
      .change(holder.id, (row) => ({
        ...row,
        used_at: row.used_at && row.used_at > used_at ? row.used_at : used_at,
      }))
      .catch((error: unknown) => this.#parts.log.debug("a key's last use could not be stored", { error }));
  }

  get #table() {
    return this.#parts.store.table("Access");
  }
}

/** A digest that is stored in hex. */
function inBase64(digest: string): string {
  return Buffer.from(digest, "hex").toString("base64url");
}

function toHolder(row: StoredAccess): Holder {
  const { id, name, role, agents, workspace, expires_at, used_at } = row;
  const over = new AbortController();
  const limits = { name, role, agents: agents ?? undefined, workspace: workspace ?? undefined };
  return {
    id,
    caller: { ...toCaller(id, limits), over: over.signal },
    expires: expires_at === null ? Number.POSITIVE_INFINITY : Date.parse(expires_at),
    isStored: true,
    over,
    usedHour: used_at === null ? 0 : Date.parse(used_at),
  };
}

function toCaller(id: string, { name, role, agents, workspace }: Limits): Caller {
  const sight = sightOf({ id, role, agents, workspace, names: [name] });
  return { kind: "key", name, role, access: id, ...(sight && { sight }) };
}

type Limits = Pick<DeclaredKey, "name" | "role" | "agents" | "workspace">;

function toShown(row: StoredAccess): Access {
  const { hash: _hash, previous, agents, ...shown } = row;
  const previous_until = previous.at(-1)?.until ?? null;
  return { ...shown, agents: agents && [...agents], previous_until, source: "stored" };
}

function toShownDeclared({ name, role, agents, workspace, expires }: DeclaredKey): Access {
  return {
    ...{
      id: `declared:${name}`,
      name,
      role,
      agents: agents ? [...agents] : null,
      workspace: workspace ?? null,
    },
    expires_at: expires === undefined ? null : new Date(expires).toISOString(),
    ...{ created_at: null, created_by: null, used_at: null, previous_until: null, source: "declared" },
  };
}

function nameTaken(name: string): ServiceError {
  return new ServiceError("invalid_transition", `A key with the name "${name}" already exists`, {
    detail: "Choose another name, or rotate or remove that key.",
  });
}

function notFound(idOrName: string): ServiceError {
  return new ServiceError("not_found", `There is no key "${idOrName}"`, {
    detail: "GET /access lists the keys; svc access list does so, too.",
  });
}

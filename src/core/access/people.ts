import { hash } from "node:crypto";
import type { AuditLog } from "../audit/audit-log.ts";
import type { Caller } from "../audit/caller.ts";
import { ServiceError } from "../base/errors.ts";
import { getOrMake } from "../base/get-or-make.ts";
import type { Logger } from "../base/log.ts";
import type { Ledger } from "../entities/ledger.ts";
import { grants, type Person, RIGHTS, type Role } from "../models/access.ts";
import type { Store } from "../store/store.ts";
import { Mirror } from "./mirror.ts";
import { accessOf, nameOfPerson, namesOf, type Proven, type RoleTable } from "./role-table.ts";
import { sightOf } from "./sight-of.ts";

const HOUR = 3_600_000;

export interface PeopleParts {
  readonly store: Store;
  readonly ledger: Ledger;
  readonly audit: AuditLog;
  readonly log: Logger;
  readonly clock: () => Date;
  /** Who has which role; nobody where people do not sign in. */
  readonly roles: RoleTable;
}

/**
 * The people whom an identity provider vouches for: what each may do, as the code says now, and who was removed. One who
 * was removed is out on every instance within seconds, whatever the provider says.
 */
export class People {
  readonly #parts: PeopleParts;
  readonly #mirror: Mirror<"Person">;
  #rows: ReadonlyMap<string, Person> = new Map();
  /** Those who have come without a role since they had one. */
  readonly #without = new Set<string>();
  /** For what ends when a person is removed. */
  readonly #over = new Map<string, AbortController>();

  constructor(parts: PeopleParts) {
    this.#parts = parts;
    const { store, log } = parts;
    const onRows = (rows: readonly Person[]): void => this.#index(rows);
    this.#mirror = new Mirror({ store, log, table: "Person", hint: "person", rows: "this person", onRows });
  }

  start(): Promise<void> {
    return this.#mirror.start();
  }

  close(): void {
    this.#mirror.close();
  }

  /** The caller that a person is; throws `forbidden` for one who was removed, or has no role. */
  enter(person: Proven): Caller {
    const id = idOf(person);
    const name = nameOfPerson(person);
    const access = accessOf(this.#parts.roles, person);
    if (!access) {
      if (this.#rows.has(id)) this.#without.add(id);
      throw new ServiceError("forbidden", `${name} has no role in this service`, {
        detail: "Ask an administrator of the service for one: it is given by e-mail address or group.",
      });
    }
    this.#mirror.assertFresh();
    if (this.#rows.get(id)?.removed_at) {
      throw new ServiceError("forbidden", `${name} was removed from this service`, {
        detail: "Ask an administrator of the service.",
      });
    }
    const { role, agents, workspace } = access;
    const names = namesOf(person);
    const sight = sightOf({ id, role, agents, workspace, names });
    this.#without.delete(id);
    this.#noteUse(id, person, { name, role });
    const over = getOrMake(this.#over, id, () => new AbortController()).signal;
    return {
      ...{ kind: "session", name, names, proven: person.issuer, role, access: id, over },
      ...(sight && { sight }),
    };
  }

  /**
   * Throws `forbidden` for a person who was removed: for what was made for that person. With the role that the person had
   * then, also for one who has come since with fewer rights.
   */
  assertIn(id: string, role?: Role): void {
    this.#mirror.assertFresh();
    const row = this.#rows.get(id);
    if (row && role !== undefined && (this.#without.has(id) || mayLess(row.role, role)))
      throw new ServiceError("forbidden", `${row.name} no longer has the role ${role}`, {
        detail: "What was started with it has stopped there.",
      });
    if (!row?.removed_at) return;
    throw new ServiceError("forbidden", `${row.name} was removed from this service`, {
      detail: "Ask an administrator of the service.",
    });
  }

  /** Everybody who has come so far, by name. */
  async list(): Promise<Person[]> {
    const { items } = await this.#table.list({ limit: Number.POSITIVE_INFINITY });
    return items
      .map((row) => ({ ...row, groups: [...row.groups] }))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Refuses a person from now on, on every instance within seconds; streams and sessions end. */
  remove(id: string, by: Caller): Promise<Person> {
    return this.#change(id, by, "access.remove", (now) => now);
  }

  /** Lets a person in again who was removed. */
  restore(id: string, by: Caller): Promise<Person> {
    return this.#change(id, by, "access.restore", () => null);
  }

  async #change(
    id: string,
    by: Caller,
    action: "access.remove" | "access.restore",
    removedAt: (now: string) => string | null,
  ): Promise<Person> {
    const row = await this.#parts.ledger.write(async (unit) => {
      const found = await unit.tx.get("Person", id);
      if (!found) {
        throw new ServiceError("not_found", `There is no person "${id}"`, {
          detail: "GET /access/people lists the people who have come so far.",
        });
      }
      const removed_at = removedAt(unit.now);
      if ((found.removed_at === null) === (removed_at === null)) return found;
      const { name, issuer } = found;
      await this.#parts.audit.write(unit, {
        ...{ by, action, target: { kind: "person", id }, after: { name, issuer } },
      });
      return unit.tx.change("Person", id, (row) => ({ ...row, removed_at }));
    });
    await this.#mirror.changed(id);
    return { ...row, groups: [...row.groups] };
  }

  #index(rows: readonly Person[]): void {
    this.#rows = new Map(rows.map((row) => [row.id, row]));
    for (const { id, removed_at } of rows) {
      if (removed_at === null) continue;
      this.#over.get(id)?.abort();
      this.#over.delete(id);
    }
  }

  /** Once an hour, and when something about the person has changed: so that others see who comes. */
  #noteUse(id: string, person: Proven, now: Pick<Person, "name" | "role">): void {
    const { clock, ledger, log } = this.#parts;
    const known = this.#rows.get(id);
    const time = clock().getTime();
    const seen_at = new Date(time - (time % HOUR)).toISOString();
    const isSame =
      known !== undefined &&
      known.seen_at >= seen_at &&
      known.role === now.role &&
      known.name === now.name &&
      known.groups.join("\n") === person.groups.join("\n");
    if (isSame) return;
    const { issuer, subject } = person;
    const groups = [...person.groups];
    const fresh = {
      ...{ id, issuer, subject, groups, ...now },
      first_seen_at: seen_at,
      seen_at,
      removed_at: null,
    };
    // Known from now on: requests that come before it is stored store nothing.
    const rows = new Map(this.#rows);
    rows.set(id, known ? { ...known, ...now, groups, seen_at } : fresh);
    this.#rows = rows;
    ledger
      .write(async (unit) => {
        if (!(await unit.tx.get("Person", id))) return unit.tx.insert("Person", fresh);
        await unit.tx.change("Person", id, (row) => ({ ...row, ...now, groups, seen_at }));
      })
      .catch((error: unknown) => log.debug("who has come could not be stored", { error }));
  }

  get #table() {
    return this.#parts.store.table("Person");
  }
}

/** Whether a role lacks a right that another one has. */
function mayLess(role: Role, other: Role): boolean {
  return RIGHTS.some((right) => grants(other, right) && !grants(role, right));
}

/** The same for the same person, who may have another name or address by then. */
export function idOf({ issuer, subject }: Proven): string {
  return `person:${hash("sha256", JSON.stringify([issuer, subject]), "hex").slice(0, 32)}`;
}

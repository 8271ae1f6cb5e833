import { getOrMake } from "../../base/get-or-make.ts";
import { toJson } from "../json-value.ts";
import { type Entity, type IndexValue, StoreConflictError, StoreMissingError } from "../store.ts";
import type { Backend, Change, EntityChange, LogChange, PutChange, StoreLog, StoreTable } from "./backend.ts";
import { Body } from "./body.ts";
import { idsByAge } from "./column.ts";

/** Maximum number of changes that are searched one by one. */
const FEW = 16;

/** The writes of one transaction before they are committed, and reads that see them. */
export class Stage {
  readonly #backend: Backend;
  /** Index of the newest change of an id or key in `changes`; built when there are more than a few. */
  #places: Map<StoreTable | StoreLog, Map<string, number>> | undefined;
  readonly changes: Change[] = [];
  /** Whether something that was read, or found missing, is not yet durable. */
  sawPending = false;

  constructor(backend: Backend) {
    this.#backend = backend;
  }

  get<T extends Entity>(table: StoreTable, id: string): T | undefined {
    const at = { slot: table.index.slotOf(id), place: this.#placeOf(table, id) };
    return this.#bodyAt(table, id, at)?.copy<T>();
  }

  /** The `run_count` of a job, read from the index alone; nothing where there is no such job. */
  epochOf(table: StoreTable, id: string): IndexValue | undefined {
    const staged = this.#staged(table, id, this.#placeOf(table, id));
    if (staged) return staged.kind === "put" ? staged.record.values.run_count : undefined;
    const slot = table.index.slotOf(id);
    return slot === undefined ? undefined : table.index.valueOf("run_count", slot);
  }

  ids(table: StoreTable, field: string, value: IndexValue): string[] {
    const facet = table.index.facet(field);
    if (facet === undefined) throw new TypeError(`Table ${table.name} has no facet "${field}"`);
    const staged = this.#stagedIn(table);
    // Mostly nobody waits for what a job is about to give.
    if (facet.count(value) === 0 && table.pending.size === 0 && staged.length === 0) return [];
    const found = new Map<string, IndexValue>();
    for (const slot of facet.slots(value)) {
      found.set(table.index.idOf(slot)!, table.index.valueOf("created_at", slot));
    }
    for (const change of [...table.pending.values(), ...staged]) {
      const values = change.kind === "put" ? change.record.values : undefined;
      const matches = values !== undefined && (values[field] ?? null) === value;
      if (!matches && !found.has(change.id)) continue;
      if (table.pending.get(change.id) === change) this.sawPending = true;
      if (matches) found.set(change.id, values.created_at ?? null);
      else found.delete(change.id);
    }
    return idsByAge(found);
  }

  insert(table: StoreTable, entity: Entity): void {
    const { id } = entity;
    if (typeof id !== "string") throw new TypeError(`A ${table.name} needs an id of type string`);
    const place = this.#placeOf(table, id);
    if (this.#exists(table, id, place)) throw new StoreConflictError(table.name, id);
    this.#put(table, entity, { body: Body.of(entity, nameOf(table, id)), place });
  }

  change<T extends Entity>(table: StoreTable, id: string, fn: (current: T) => T | undefined): T {
    const slot = table.index.slotOf(id);
    const place = this.#placeOf(table, id);
    const body = this.#bodyAt(table, id, { slot, place });
    if (body === undefined) throw new StoreMissingError(table.name, id);
    const { length } = this.changes;
    const next = fn(body.draft<T>());
    // The draft may still have been altered.
    if (next === undefined) return body.copy<T>();
    if (next.id !== id) throw new TypeError(`A change of ${nameOf(table, id)} must keep its id`);
    // The function may have written, too.
    const now = this.changes.length === length ? place : this.#placeOf(table, id);
    this.#put(table, next, { body: body.next(next, nameOf(table, id)), before: body, slot, place: now });
    return next;
  }

  remove(table: StoreTable, id: string): boolean {
    const place = this.#placeOf(table, id);
    if (!this.#exists(table, id, place)) return false;
    this.#record({ kind: "delete", table, id }, place);
    return true;
  }

  last(log: StoreLog, key: string): number {
    const place = this.#placeOf(log, key);
    if (place !== undefined) return (this.changes[place] as LogChange).last;
    const pending = log.pending.get(key);
    if (pending === undefined) return this.#backend.lastOf(log, key);
    this.sawPending = true;
    return pending.last;
  }

  append(log: StoreLog, key: string, entry: unknown, json?: string): number {
    const last = this.last(log, key) + 1;
    const text = json ?? toJson(entry, `An entry of log ${log.name} "${key}"`);
    this.#add({ kind: "append", log, key, last, text });
    return last;
  }

  clear(log: StoreLog, key: string): void {
    if (this.last(log, key) === 0) return;
    this.#add({ kind: "clear", log, key, last: 0 });
  }

  /** `before` is the version that a change was made from, `slot` its slot, `place` that of an earlier write, if any. */
  #put(
    table: StoreTable,
    entity: Entity,
    {
      body,
      before,
      slot,
      place,
    }: { body: Body; before?: Body; slot?: number | undefined; place: number | undefined },
  ): void {
    const { id } = entity;
    const record = { values: table.spec.index(entity), text: table.spec.text?.(entity) ?? "" };
    body.record = record;
    // Of several writes of one entity only the last is kept: the version it was made from is never stored.
    const since = place === undefined ? before?.record : undefined;
    const isNew = before === undefined;
    const change: PutChange = { kind: "put", table, id, body, record, since, slot, isNew };
    this.#record(change, place);
  }

  /** Keeps only the last of several writes of one entity. */
  #record(change: EntityChange, place: number | undefined): void {
    if (place === undefined) this.#add(change);
    else this.changes[place] = change;
  }

  #add(change: Change): void {
    const place = this.changes.push(change) - 1;
    if (this.#places !== undefined) this.#keepPlace(change, place);
    else if (place === FEW) {
      this.#places = new Map();
      for (const [at, each] of this.changes.entries()) this.#keepPlace(each, at);
    }
  }

  #keepPlace(change: Change, place: number): void {
    const places = getOrMake(this.#places!, ownerOf(change), () => new Map<string, number>());
    places.set(keyOf(change), place);
  }

  /** Searching a few changes costs less than an index of them, and most transactions have few. */
  #placeOf(owner: StoreTable | StoreLog, key: string): number | undefined {
    if (this.#places !== undefined) return this.#places.get(owner)?.get(key);
    for (let place = this.changes.length - 1; place >= 0; place--) {
      const change = this.changes[place]!;
      const isFound =
        change.kind === "put" || change.kind === "delete"
          ? change.id === key && change.table === owner
          : change.key === key && change.log === owner;
      if (isFound) return place;
    }
    return undefined;
  }

  #stagedIn(table: StoreTable): EntityChange[] {
    return this.changes.filter((change): change is EntityChange => ownerOf(change) === table);
  }

  #staged(table: StoreTable, id: string, place: number | undefined): EntityChange | undefined {
    if (place !== undefined) return this.changes[place] as EntityChange;
    const pending = table.pending.get(id);
    if (pending !== undefined) this.sawPending = true;
    return pending;
  }

  #exists(table: StoreTable, id: string, place: number | undefined): boolean {
    const staged = this.#staged(table, id, place);
    return staged === undefined ? table.index.slotOf(id) !== undefined : staged.kind === "put";
  }

  #bodyAt(
    table: StoreTable,
    id: string,
    { slot, place }: { slot: number | undefined; place: number | undefined },
  ): Body | undefined {
    const staged = this.#staged(table, id, place);
    if (staged !== undefined) return staged.kind === "put" ? staged.body : undefined;
    return slot === undefined ? undefined : this.#backend.body(table, slot);
  }
}

function ownerOf(change: Change): StoreTable | StoreLog {
  return change.kind === "put" || change.kind === "delete" ? change.table : change.log;
}

function keyOf(change: Change): string {
  return change.kind === "put" || change.kind === "delete" ? change.id : change.key;
}

function nameOf(table: StoreTable, id: string): string {
  return `${table.name} "${id}"`;
}

import { Body } from "../engine/body.ts";
import { idsByAge } from "../engine/column.ts";
import type { IndexRecord } from "../engine/table-index.ts";
import { toJson } from "../json-value.ts";
import {
  type Entity,
  type Fence,
  type IndexValue,
  StoreConflictError,
  StoreMissingError,
  type Transaction,
} from "../store.ts";
import { type EntityHead, isPending, type LogHead, type Writer } from "./heads.ts";
import { toKeyColumn } from "./sql-text.ts";
import type { TableLayout } from "./table-layout.ts";

/** An id, and when its entity was created: what ids are sorted by. */
export type AgedId = readonly [id: string, createdAt: IndexValue];

/** Where an attempt reads what it has not written itself. */
export interface Source {
  layoutOf(table: string): TableLayout;
  /** The newest known version, written or on its way; nothing if it is not known. */
  known(key: string): EntityHead | undefined;
  /** The newest version that is on its way; nothing if none is. */
  pending(key: string): EntityHead | undefined;
  load(layout: TableLayout, id: string): Promise<EntityHead>;
  knownLog(key: string): LogHead | undefined;
  pendingLog(key: string): LogHead | undefined;
  loadLog(log: string, id: string): Promise<LogHead>;
  /** The number of the last change of a facet's value, where no entity is likely to have that value. */
  guessNone(key: string, value: IndexValue): number | undefined;
  /** The ids in the database, once nothing on its way changes them, with the number of the last change before. */
  loadIds(
    layout: TableLayout,
    field: string,
    value: IndexValue,
  ): Promise<{ ids: readonly AgedId[]; change: number }>;
}

/** The ids that were read by a value of a facet. */
export interface IdRead {
  readonly layout: TableLayout;
  readonly field: string;
  readonly value: IndexValue;
  readonly ids: readonly string[];
  readonly key: string;
  /** Number of the last change of a facet's value before it was read. */
  readonly change: number;
}

/** What a transaction does to a log's key. */
export interface LogWrite {
  readonly head: LogHead;
  readonly isCleared: boolean;
  /** JSON; of a cleared key those that follow. */
  readonly entries: string[];
}

/**
 * One run of a transaction's work: remembers every version that it read, and collects what it writes. Both are compared
 * and written at the commit.
 */
export class Attempt implements Transaction, Writer {
  readonly #source: Source;
  readonly #isFresh: boolean;
  /** What was first seen of each entity and log. */
  readonly reads = new Map<string, EntityHead>();
  readonly logReads = new Map<string, LogHead>();
  readonly idReads: IdRead[] = [];
  /** What was first seen by the value of a facet. */
  readonly #idsOf = new Map<string, readonly AgedId[]>();
  readonly puts = new Map<string, EntityHead>();
  readonly logWrites = new Map<string, LogWrite>();
  /** Attempts that are on their way and that wrote what this one read. */
  readonly after = new Set<Writer>();
  /** What must hold of the database at the commit. */
  fence: Fence | undefined;
  /** The table of the fence's job. */
  fenceTable: TableLayout | undefined;
  state: Writer["state"] = "open";
  /** Reads of what was in memory. */
  remembered = 0;
  #isOver = false;

  /** `isFresh` reads everything from the database except for what is on its way. */
  constructor(source: Source, isFresh: boolean) {
    this.#source = source;
    this.#isFresh = isFresh;
  }

  /** Refuses all further calls. */
  end(): void {
    this.#isOver = true;
  }

  /** Whether it has read one thing only, from the database: nothing that it saw can disagree. */
  get isSingleRead(): boolean {
    return this.reads.size + this.idReads.length + this.logReads.size <= 1 && this.remembered === 0;
  }

  get hasWrites(): boolean {
    return this.puts.size > 0 || this.logWrites.size > 0;
  }

  dropWrites(): void {
    this.puts.clear();
    this.logWrites.clear();
  }

  async get(table: string, id: string): Promise<never> {
    const head = await this.#see(this.#layoutOf(table), id);
    return this.#current(head).body?.copy<never>() as never;
  }

  async insert(table: string, entity: Entity): Promise<void> {
    const layout = this.#layoutOf(table);
    const { id } = entity;
    if (typeof id !== "string") throw new TypeError(`A ${table} needs an id of type string`);
    toKeyColumn(id);
    const key = entityKey(layout, id);
    // Most new ids are new: the commit checks it, and another attempt reads it.
    const isGuess = !this.#isFresh && !this.reads.has(key) && this.#source.known(key) === undefined;
    const seen = isGuess ? this.#remember(absent(layout, id)) : await this.#see(layout, id);
    if (this.#current(seen).body !== undefined) throw new StoreConflictError(table, id);
    this.#put(seen, Body.of(entity, nameOf(layout, id)), layout.recordOf(entity));
  }

  async change(table: string, id: string, fn: (current: never) => Entity | undefined): Promise<never> {
    const layout = this.#layoutOf(table);
    const seen = await this.#see(layout, id);
    const { body } = this.#current(seen);
    if (body === undefined) throw new StoreMissingError(table, id);
    const next = fn(body.draft<never>());
    // The draft may still have been altered.
    if (next === undefined) return body.copy<never>();
    if (next.id !== id) throw new TypeError(`A change of ${nameOf(layout, id)} must keep its id`);
    this.#put(seen, body.next(next, nameOf(layout, id)), layout.recordOf(next));
    return next as never;
  }

  async remove(table: string, id: string): Promise<boolean> {
    const seen = await this.#see(this.#layoutOf(table), id);
    if (this.#current(seen).body === undefined) return false;
    this.#put(seen, undefined, undefined);
    return true;
  }

  /** Writes an entity again as it is, with the index values of this code. */
  async rewrite(layout: TableLayout, id: string): Promise<void> {
    const seen = await this.#see(layout, id);
    if (seen.body === undefined) return;
    seen.record = undefined;
    this.#put(seen, seen.body, layout.recordOf(seen.body.view()));
  }

  async ids(table: string, field: string, value: IndexValue): Promise<string[]> {
    const layout = this.#layoutOf(table);
    if (!layout.isFacet(field)) throw new TypeError(`Table ${table} has no facet "${field}"`);
    const ids = await this.#seeIds(layout, field, value);
    const own = [...this.puts.values()].filter((head) => head.layout === layout);
    if (own.length === 0) return ids.map(([id]) => id);
    const found = new Map(ids);
    for (const { id, record } of own) {
      if (record !== undefined && (record.values[field] ?? null) === value) {
        found.set(id, record.values.created_at ?? null);
      } else found.delete(id);
    }
    return idsByAge(found);
  }

  async append(log: string, key: string, entry: unknown, json?: string): Promise<number> {
    const seen = await this.#seeLog(log, key);
    const text = json ?? toJson(entry, `An entry of log ${log} "${key}"`);
    const before = this.logWrites.get(seen.key);
    const last = (before?.head ?? seen).last + 1;
    const entries = before?.entries ?? [];
    entries.push(text);
    const isCleared = before?.isCleared ?? false;
    this.logWrites.set(seen.key, { head: { ...seen, last, by: this }, isCleared, entries });
    return last;
  }

  async last(log: string, key: string): Promise<number> {
    const seen = await this.#seeLog(log, key);
    return (this.logWrites.get(seen.key)?.head ?? seen).last;
  }

  async clear(log: string, key: string): Promise<void> {
    const seen = await this.#seeLog(log, key);
    if ((this.logWrites.get(seen.key)?.head ?? seen).last === 0) return;
    this.logWrites.set(seen.key, { head: { ...seen, last: 0, by: this }, isCleared: true, entries: [] });
  }

  #check(): void {
    if (this.#isOver) throw new TypeError("The transaction has ended: await all of its calls inside it");
  }

  #layoutOf(table: string): TableLayout {
    this.#check();
    return this.#source.layoutOf(table);
  }

  #current(seen: EntityHead): EntityHead {
    return this.puts.get(seen.key) ?? seen;
  }

  #put(seen: EntityHead, body: Body | undefined, record: IndexRecord | undefined): void {
    const { key, layout, id } = seen;
    this.puts.set(key, { key, layout, id, body, version: undefined, by: this, record });
  }

  #remember(head: EntityHead): EntityHead {
    this.reads.set(head.key, head);
    if (isPending(head)) this.after.add(head.by!);
    return head;
  }

  async #see(layout: TableLayout, id: string): Promise<EntityHead> {
    const key = entityKey(layout, id);
    const seen = this.reads.get(key);
    if (seen !== undefined) return seen;
    const known = this.#isFresh ? this.#source.pending(key) : this.#source.known(key);
    if (known !== undefined) {
      this.remembered++;
      return this.#remember(known);
    }
    const loaded = await this.#source.load(layout, id);
    this.#check();
    const other = this.reads.get(key);
    if (other !== undefined) return other;
    return this.#remember(this.#source.pending(key) ?? loaded);
  }

  async #seeIds(layout: TableLayout, field: string, value: IndexValue): Promise<readonly AgedId[]> {
    const key = facetKey(layout, field, value);
    const seen = this.#idsOf.get(key);
    if (seen !== undefined) return seen;
    const guessed = this.#isFresh ? undefined : this.#source.guessNone(key, value);
    if (guessed !== undefined) this.remembered++;
    const { ids, change } =
      guessed === undefined ? await this.#source.loadIds(layout, field, value) : { ids: [], change: guessed };
    this.#check();
    const other = this.#idsOf.get(key);
    if (other !== undefined) return other;
    this.#idsOf.set(key, ids);
    this.idReads.push({ layout, field, value, ids: ids.map(([id]) => id), key, change });
    return ids;
  }

  async #seeLog(log: string, id: string): Promise<LogHead> {
    this.#check();
    toKeyColumn(id);
    const key = logKey(log, id);
    const seen = this.logReads.get(key);
    if (seen !== undefined) return seen;
    const known = this.#isFresh ? this.#source.pendingLog(key) : this.#source.knownLog(key);
    if (known !== undefined) {
      this.remembered++;
      return this.#rememberLog(known);
    }
    // The log of an entity that this transaction inserts is new, too.
    if (
      !this.#isFresh &&
      [...this.puts.values()].some((put) => put.id === id && this.reads.get(put.key)?.body === undefined)
    ) {
      return this.#rememberLog({ key, log, id, last: 0, by: undefined });
    }
    const loaded = await this.#source.loadLog(log, id);
    this.#check();
    const other = this.logReads.get(key);
    if (other !== undefined) return other;
    return this.#rememberLog(this.#source.pendingLog(key) ?? loaded);
  }

  #rememberLog(head: LogHead): LogHead {
    this.logReads.set(head.key, head);
    if (isPending(head)) this.after.add(head.by!);
    return head;
  }
}

export function entityKey(layout: TableLayout, id: string): string {
  return `${layout.name}\0${id}`;
}

export function logKey(log: string, id: string): string {
  return `${log}\0${id}`;
}

export function facetKey(layout: TableLayout, field: string, value: IndexValue): string {
  return `${layout.name}\0${field}\0${value === null ? "" : typeof value}\0${value}`;
}

/** Where there is no entity. */
export function absent(layout: TableLayout, id: string): EntityHead {
  return { key: entityKey(layout, id), layout, id, body: undefined, version: null, by: undefined };
}

function nameOf(layout: TableLayout, id: string): string {
  return `${layout.name} "${id}"`;
}

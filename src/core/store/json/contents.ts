import { getOrMake } from "../../base/get-or-make.ts";
import { PassingMap } from "../../base/passing-map.ts";
import type { Change, PutChange, StoreLog, StoreTable } from "../engine/backend.ts";
import type { Body } from "../engine/body.ts";
import { TableIndex } from "../engine/table-index.ts";
import { BodyCache } from "./body-cache.ts";
import type { TablePart } from "./checkpoint-file.ts";
import { EntryLocators, type Locator, Locators } from "./locators.ts";
import type { Segment } from "./segment.ts";

/** Characters of recently used bodies that are kept for each table. */
const CACHE = 8 * 1024 * 1024;

/** An entity as a change, or a line of a file, describes it. */
type Put = Pick<PutChange, "id" | "record"> & Partial<Pick<PutChange, "body" | "since" | "slot">>;

interface Rows {
  readonly locators: Locators;
  readonly cache: BodyCache;
}

function newRows(): Rows {
  return { locators: new Locators(), cache: new BodyCache(CACHE) };
}

/** What is committed and where it is; counts how much of each file still matters. */
export class Contents {
  readonly segments = new Map<number, Segment>();
  readonly tables: Map<string, StoreTable>;
  /** The versions of the tables that the service knows, by name. */
  readonly #versions: ReadonlyMap<string, string>;
  readonly #rows = new Map<TableIndex, Rows>();
  readonly #logs = new Map<string, Map<string, EntryLocators>>();

  constructor(tables: ReadonlyMap<string, StoreTable>) {
    this.tables = new Map(tables);
    this.#versions = new Map([...tables].map(([name, { spec }]) => [name, String(spec.version)]));
  }

  /** A table by name; one that the service does not know (its plugin is missing) is kept unchanged. */
  tableOf(name: string): StoreTable {
    return getOrMake(this.tables, name, () => {
      const spec = { name, version: 0, entity: false, index: () => ({}), facets: [], sorted: [] };
      return { name, spec, index: new TableIndex(spec), pending: new PassingMap() };
    });
  }

  /** The version of a table's index; `undefined` for a table that the service does not know. */
  versionOf({ name }: StoreTable): string | undefined {
    return this.#versions.get(name);
  }

  /** Makes a change visible whose line is on disk; `seq` is the number of the write. */
  apply(change: Change, at: Locator, seq: number): void {
    if (change.kind === "put") {
      this.put(change.table, change, at, seq);
      if (!change.isNew) this.countBare(at);
      return;
    }
    if (change.kind === "append") {
      this.append(change.log.name, change.key, at, seq);
      return;
    }
    this.segments.get(at.segment)?.removals.add(seq, at);
    if (change.kind === "delete") this.remove(change.table, change.id);
    else this.clear(change.log.name, change.key);
  }

  put({ index }: StoreTable, entity: Put, at: Locator, seq: number): number {
    const { locators, cache } = this.#rowsOf(index);
    const known = index.slotOf(entity.id, entity.slot);
    if (known !== undefined) {
      this.#drop(locators.get(known));
      index.replace(known, entity.record, entity.since);
    }
    const slot = known ?? index.insert(entity.id, entity.record);
    locators.set(slot, at, seq);
    this.#count(at);
    if (entity.body === undefined) cache.delete(slot);
    else cache.set(slot, entity.body);
    return slot;
  }

  /** Counts a line of a table that the service knows, without index or with one of another version. */
  countBare({ segment, length }: Locator, { isOutdated = false } = {}): void {
    const found = this.segments.get(segment);
    if (found === undefined) return;
    found.bare += length + 1;
    if (isOutdated) found.isOutdated = true;
  }

  remove({ index }: StoreTable, id: string): void {
    const slot = index.delete(id);
    if (slot === undefined) return;
    const { locators, cache } = this.#rowsOf(index);
    this.#drop(locators.get(slot));
    locators.clear(slot);
    cache.delete(slot);
  }

  append(log: string, key: string, at: Locator, seq: number): void {
    getOrMake(this.#keysOf(log), key, () => new EntryLocators()).push(at, seq);
    this.#count(at);
  }

  clear(log: string, key: string): void {
    const entries = this.#keysOf(log).get(key);
    if (entries === undefined) return;
    for (let number = 1; number <= entries.count; number++) this.#drop(entries.get(number));
    this.#keysOf(log).delete(key);
  }

  /** Adds the entities of a part of a checkpoint. `segmentOf` has the number of the file that it has under another; 0 is none. Returns the slot of the first, which the others follow. */
  load({ table: name, slice, places }: TablePart, segmentOf: readonly number[]): number {
    const { index } = this.tableOf(name);
    const { locators } = this.#rowsOf(index);
    const first = index.load(slice);
    for (let at = 0; at < slice.ids.length; at++) {
      const segment = segmentOf[places.segments[at]!] ?? 0;
      const place = { segment, offset: places.offsets[at]!, length: places.lengths[at]! };
      locators.set(first + at, place, places.seqs[at]!);
      this.#count(place);
    }
    return first;
  }

  /** Makes room for as many entities of a table. */
  reserve(table: string, count: number): void {
    const { index } = this.tableOf(table);
    index.reserve(count);
    this.#rowsOf(index).locators.reserve(count);
  }

  /** Removes entities without a line: what a checkpoint had and no file has. */
  removeMissing(): void {
    for (const table of this.tables.values()) {
      const locators = this.locatorsOf(table);
      const missing = [...locators.slotsIn(new Set([0]), 0, table.index.capacity)];
      for (const slot of missing) if (table.index.has(slot)) this.remove(table, table.index.idOf(slot)!);
    }
  }

  /** Forgets everything except the files. */
  reset(): void {
    for (const { index } of this.tables.values()) index.clear();
    this.#rows.clear();
    this.#logs.clear();
    for (const segment of this.segments.values()) {
      Object.assign(segment, { live: 0, bare: 0, isOutdated: false, from: Number.MAX_SAFE_INTEGER });
      segment.removals.load([], 0);
    }
  }

  locatorOf(table: StoreTable, slot: number): Locator {
    return this.locatorsOf(table).get(slot);
  }

  locatorsOf({ index }: StoreTable): Locators {
    return this.#rowsOf(index).locators;
  }

  cachedBody({ index }: StoreTable, slot: number): Body | undefined {
    return this.#rowsOf(index).cache.get(slot);
  }

  /** Keeps a body that was read, unless it was changed since. */
  keepBody({ index }: StoreTable, slot: number, { body, at }: { body: Body; at: Locator }): void {
    const { locators, cache } = this.#rowsOf(index);
    if (locators.isAt(slot, at.segment, at.offset)) cache.set(slot, body);
  }

  entriesOf(log: string | StoreLog, key: string): EntryLocators | undefined {
    return this.#logs.get(typeof log === "string" ? log : log.name)?.get(key);
  }

  logNames(): Iterable<string> {
    return this.#logs.keys();
  }

  keysOf(log: string): ReadonlyMap<string, EntryLocators> {
    return this.#keysOf(log);
  }

  /** Notes that an entity's newest line was copied. Does nothing if it is no longer the newest. */
  moveEntity({ index }: StoreTable, slot: number, from: Locator, to: Locator): void {
    const { locators } = this.#rowsOf(index);
    if (!locators.isAt(slot, from.segment, from.offset)) return;
    locators.move(slot, to);
    this.#drop(from);
    this.#count(to);
  }

  /** Notes that the line of an entry of a log was copied. */
  moveEntry(log: string, entry: { key: string; number: number }, from: Locator, to: Locator): void {
    const entries = this.entriesOf(log, entry.key);
    if (!entries?.isAt(entry.number, from.segment, from.offset)) return;
    entries.move(entry.number, to);
    this.#drop(from);
    this.#count(to);
  }

  #rowsOf(index: TableIndex): Rows {
    const known = this.#rows.get(index);
    return known ?? getOrMake(this.#rows, index, newRows);
  }

  #keysOf(log: string): Map<string, EntryLocators> {
    return getOrMake(this.#logs, log, () => new Map());
  }

  #count({ segment, length }: Locator): void {
    const found = this.segments.get(segment);
    if (found !== undefined) found.live += length + 1;
  }

  #drop({ segment, length }: Locator): void {
    const found = this.segments.get(segment);
    if (found !== undefined) found.live -= length + 1;
  }
}

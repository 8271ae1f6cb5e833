import { getOrMake } from "../../base/get-or-make.ts";
import type { IndexValue, TableSpec } from "../store.ts";
import { Column, toValue } from "./column.ts";
import { Facet } from "./facet.ts";
import { FreeSlots } from "./free-slots.ts";
import type { FieldSlice, IndexSlice } from "./index-slice.ts";
import { SortedOrder } from "./sorted-order.ts";
import { StringLookup } from "./string-lookup.ts";
import { Strings } from "./strings.ts";
import { Texts } from "./texts.ts";

/** The data that queries use: the index values of an entity and its searchable text. */
export interface IndexRecord {
  readonly values: Readonly<Record<string, IndexValue>>;
  readonly text: string;
}

/** The values of a field by slot; of a facet also the slots by value. */
type Field =
  | { readonly name: string; readonly column: Column; readonly facet: undefined }
  | { readonly name: string; readonly column: Facet; readonly facet: Facet };

/** Memory for fewer slots than this is not worth releasing. */
const SMALL = 4096;

/**
 * The index of one table in memory: ids, index values and text, never bodies. An entity has a slot, a small number,
 * from its insertion to its removal.
 */
export class TableIndex {
  readonly spec: TableSpec;
  #ids = new Strings();
  #slots = new StringLookup(this.#ids);
  #texts = new Texts();
  #capacity = 0;
  readonly #free = new FreeSlots();
  /** The capacity of the columns. */
  #room = 0;
  /** The number of entities that room was made for. */
  #expected = 0;
  readonly #fields = new Map<string, Field>();
  readonly #orders = new Map<string, SortedOrder>();

  constructor(spec: TableSpec) {
    this.spec = spec;
    this.#addFields();
  }

  #addFields(): void {
    for (const name of [...this.spec.facets, ...this.spec.sorted]) this.#fieldOf(name);
  }

  /** Removes everything, also what a slice that did not fit has left. */
  clear(): void {
    this.#ids = new Strings();
    this.#slots = new StringLookup(this.#ids);
    this.#texts = new Texts();
    this.#free.clear();
    this.#capacity = 0;
    this.#room = 0;
    this.#expected = 0;
    this.#fields.clear();
    this.#orders.clear();
    this.#addFields();
  }

  get size(): number {
    return this.#slots.size;
  }

  /** One more than the highest slot in use. */
  get capacity(): number {
    return this.#capacity;
  }

  /** `likely` is a slot that it may have: checking it first is faster. */
  slotOf(id: string, likely?: number): number | undefined {
    return likely !== undefined && this.#ids.equals(likely, id) ? likely : this.#slots.find(id);
  }

  idOf(slot: number): string | undefined {
    return this.#ids.get(slot);
  }

  /** Whether an entity has this slot. */
  has(slot: number): boolean {
    return this.#ids.has(slot);
  }

  /** The searchable text of a slot, in lower case. */
  textOf(slot: number): string {
    return this.#texts.get(slot);
  }

  /** Marks the slots whose text contains the needle: see `Texts`. */
  searchTexts(needle: string, range: { from: number; to: number }, marks: Uint8Array): number {
    return this.#texts.search(needle, range, marks);
  }

  valueOf(field: string, slot: number): IndexValue {
    if (field === "id") return this.#ids.get(slot) ?? null;
    return this.#fields.get(field)?.column.get(slot) ?? null;
  }

  /** All index values of a slot. */
  recordOf(slot: number): IndexRecord {
    const values: [string, IndexValue][] = [];
    for (const [name, { column }] of this.#fields) values.push([name, column.get(slot)]);
    return { values: Object.fromEntries(values), text: this.textOf(slot) };
  }

  /** All that it has of some slots, all in use. */
  sliceOf(slots: Uint32Array): IndexSlice {
    const fields: [string, FieldSlice][] = [];
    for (const [name, { column }] of this.#fields) fields.push([name, column.sliceOf(slots)]);
    return {
      ids: Array.from(slots, (slot) => this.#ids.get(slot)!),
      texts: this.spec.text && Array.from(slots, (slot) => this.#texts.get(slot)),
      fields: Object.fromEntries(fields),
    };
  }

  /**
   * Adds the entities of a slice, whose ids must be new; returns the slot of the first, which the others follow. Throws if
   * it does not fit, and is of no use then. No order must exist yet.
   */
  load({ ids, texts, fields }: IndexSlice): number {
    const first = this.#capacity;
    const { length } = ids;
    if (first === 0) this.#ids.reserveLike(ids, this.#expected);
    for (let at = 0; at < length; at++) {
      const id = ids[at]!;
      if (this.#slots.find(id) !== undefined) throw new Error(`there is more than one "${id}"`);
      this.#ids.set(first + at, id);
      this.#slots.add(first + at);
    }
    this.#capacity += length;
    this.#room = Math.max(this.#room, this.#capacity);
    if (texts !== undefined) this.#texts.load(first, texts);
    for (const name of this.spec.facets)
      if (fields[name]?.kind !== "codes") throw new Error(`it has no facet "${name}"`);
    for (const [name, slice] of Object.entries(fields)) {
      const { column, facet } = this.#fieldOf(name);
      if (facet === undefined) column.load(first, slice);
      else if (slice.kind === "codes") facet.load(first, slice);
    }
    return first;
  }

  /** Makes room for as many entities in all. */
  reserve(count: number): void {
    this.#expected = count;
    this.#ids.reserve(count);
    this.#slots.reserve(count);
    for (const { column } of this.#fields.values()) column.reserve(count);
  }

  /** The orders that it has of sorted fields, for `loadOrder`. */
  *orders(): Generator<{ readonly field: string; readonly slots: Uint32Array }, void> {
    for (const [field, order] of this.#orders) {
      if (!this.spec.sorted.includes(field)) continue;
      const slots = new Uint32Array(this.size);
      let count = 0;
      order.ascend({
        matches: () => true,
        visit: (slot) => {
          slots[count++] = slot;
          return true;
        },
      });
      yield { field, slots };
    }
  }

  /**
   * Creates an order from slots that are mostly in it, which is much faster than from others; those of no entity are
   * skipped. Keeps the array.
   */
  loadOrder(field: string, slots: Uint32Array): void {
    if (!this.spec.sorted.includes(field)) return;
    const isMissing = new Uint8Array(this.#capacity).fill(1);
    // In place: another array would be garbage that is as large as the index.
    const known = slots.length < this.size ? new Uint32Array(this.size) : slots;
    let count = 0;
    for (let at = 0; at < slots.length; at++) {
      const slot = slots[at]!;
      if (isMissing[slot] !== 1 || !this.#ids.has(slot)) continue;
      isMissing[slot] = 0;
      known[count++] = slot;
    }
    for (let slot = 0; count < this.size; slot++)
      if (isMissing[slot] === 1 && this.#ids.has(slot)) known[count++] = slot;
    this.#orders.set(field, new SortedOrder(known.subarray(0, count), this.comparison(field)));
  }

  hasField(field: string): boolean {
    return field === "id" || this.#fields.has(field);
  }

  column(field: string): Column | Facet | undefined {
    return this.#fields.get(field)?.column;
  }

  facet(field: string): Facet | undefined {
    return this.#fields.get(field)?.facet;
  }

  /** The order of a field that is sorted or counted over a time, created on first use and maintained from then on. */
  order(field: string): SortedOrder | undefined {
    const isTime = this.spec.tallies?.some(({ by }) => by === field);
    if (!this.spec.sorted.includes(field) && !isTime) return undefined;
    const make = () => new SortedOrder(Uint32Array.from(this.slots()), this.comparison(field));
    return getOrMake(this.#orders, field, make);
  }

  /** All slots that entities have. */
  *slots(): Generator<number, void> {
    for (let slot = 0; slot < this.#capacity; slot++) if (this.#ids.has(slot)) yield slot;
  }

  /** Compares slots by a field; ties by id, which ascends unless it is the field. */
  comparison(field: string, descending = false): (a: number, b: number) => number {
    const ids = this.#ids;
    const column = this.column(field);
    if (column === undefined) return descending ? (a, b) => ids.compare(b, a) : (a, b) => ids.compare(a, b);
    if (descending) return (a, b) => column.compare(b, a) || ids.compare(a, b);
    return (a, b) => column.compare(a, b) || ids.compare(a, b);
  }

  /** Adds or replaces an entity; returns its slot. */
  put(id: string, record: IndexRecord): number {
    const known = this.#slots.find(id);
    if (known === undefined) return this.insert(id, record);
    this.replace(known, record);
    return known;
  }

  /** Removes an entity; returns the slot it had. */
  delete(id: string): number | undefined {
    const slot = this.#slots.find(id);
    if (slot === undefined) return undefined;
    for (const order of this.#orders.values()) order.remove(slot);
    for (const { column, facet } of this.#fields.values()) {
      if (facet === undefined) column.set(slot, null);
      else facet.remove(slot);
    }
    this.#slots.remove(slot);
    this.#ids.clear(slot);
    this.#texts.set(slot, "");
    this.#free.add(slot);
    if (slot === this.#capacity - 1) this.#giveBack();
    return slot;
  }

  /** Gives back what the free slots at the end take: a table that was large once need not stay so. */
  #giveBack(): void {
    while (this.#capacity > 0 && !(this.#ids.starts[this.#capacity - 1]! > 0)) this.#capacity--;
    const { capacity } = this;
    if (capacity * 4 > this.#room || this.#room < SMALL) return;
    this.#room = capacity;
    this.#ids.trim(capacity);
    this.#slots.trim();
    this.#texts.trim(capacity);
    for (const { column } of this.#fields.values()) column.trim(capacity);
  }

  /** The lowest free slot, else a new one. */
  #takeSlot(): number {
    for (let slot = this.#free.take(); slot !== undefined; slot = this.#free.take()) {
      if (slot >= this.#capacity) {
        // They were given back, and all that follow.
        this.#free.clear();
        break;
      }
      if (!(this.#ids.starts[slot]! > 0)) return slot;
    }
    const slot = this.#capacity++;
    this.#room = Math.max(this.#room, slot + 1);
    return slot;
  }

  /** Adds an entity whose id none has yet; returns its slot. */
  insert(id: string, record: IndexRecord): number {
    const slot = this.#takeSlot();
    this.#ids.set(slot, id);
    this.#slots.add(slot);
    if (record.text !== "") this.#texts.set(slot, record.text.toLowerCase());
    for (const name in record.values) {
      const { column, facet } = this.#fields.get(name) ?? this.#fieldOf(name);
      const given = record.values[name];
      // Most are text, or `null`, which a free slot has in each column.
      const value = given === null || typeof given === "string" ? given : toValue(given);
      if (facet !== undefined) facet.add(slot, value);
      else if (value !== null) column.set(slot, value);
    }
    for (const name of this.spec.facets) if (!(name in record.values)) this.facet(name)!.add(slot, null);
    for (const order of this.#orders.values()) order.insert(slot);
    return slot;
  }

  /**
   * Gives the entity of a slot another record. If its current record is known, only the differences are
   * processed.
   */
  replace(slot: number, { text, values }: IndexRecord, since?: IndexRecord): void {
    if (text !== since?.text) this.#setText(slot, text);
    let count = 0;
    for (const name in values) {
      const value = values[name];
      if (since === undefined || since.values[name] !== value) this.#move(slot, this.#fieldOf(name), value);
      count++;
    }
    if (count === this.#fields.size) return;
    for (const [name, field] of this.#fields) if (!Object.hasOwn(values, name)) this.#move(slot, field, null);
  }

  #setText(slot: number, text: string): void {
    const lower = text.toLowerCase();
    if (lower !== this.#texts.get(slot)) this.#texts.set(slot, lower);
  }

  /** Gives a slot another value of a field. */
  #move(slot: number, { name, column, facet }: Field, next: IndexValue | undefined): void {
    const value = toValue(next);
    if (column.is(slot, value)) return;
    const order = this.#orders.get(name);
    order?.remove(slot);
    if (facet === undefined) column.set(slot, value);
    else {
      facet.remove(slot);
      facet.add(slot, value);
    }
    order?.insert(slot);
  }

  #fieldOf(name: string): Field {
    const known = this.#fields.get(name);
    if (known !== undefined) return known;
    const facet = this.spec.facets.includes(name) ? new Facet() : undefined;
    const field: Field = facet ? { name, column: facet, facet } : { name, column: new Column(), facet };
    field.column.reserve(this.#expected);
    this.#fields.set(name, field);
    return field;
  }
}

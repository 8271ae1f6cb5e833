import { randomBytes } from "node:crypto";
import type { Owner } from "../json/manifest.ts";
import {
  type Chain,
  damagedChain,
  type EntryHead,
  type EntryNote,
  findBase,
  type LogKey,
  logKeys,
  OwnerLostError,
  pad,
  readEntries,
  readJournal,
  type Taken,
} from "./chain.ts";
import { type Objects, seal, unseal } from "./sealed.ts";

/**
 * A journal in a storage that only writes, reads and lists. Each owner writes a marker of its own, with a number higher than
 * all others, then lists what there is. It acknowledges a group after it was written and no higher marker is listed after
 * that. docs/store.md has the argument.
 */
export class MarkerChain implements Chain {
  readonly #objects: Objects;
  readonly #by: Owner | undefined;
  readonly #token: string;
  epoch = "";
  #slot = 0;
  /** A group is written already whose markers could not be listed yet. */
  #written = 0;

  constructor(objects: Objects, options: { by?: Owner; epoch?: string } = {}) {
    this.#objects = objects;
    this.#by = options.by;
    this.#token = options.epoch ?? randomBytes(8).toString("hex");
  }

  get slot(): number {
    return this.#slot;
  }

  keyOf(slot: number): string {
    return `log:${pad(slot)}.${this.epoch}`;
  }

  async take(): Promise<Taken> {
    const number = Math.max(0, ...markersOf(await this.#objects.list(MARKERS)).map(numberOf)) + 1;
    this.epoch = `${pad(number)}-${this.#token}`;
    // Never written again: an attempt that takes effect late changes nothing.
    await this.#objects.put(`${MARKERS}:${this.epoch}`, seal({ epoch: this.epoch, by: this.#by }));
    const keys = await this.#objects.list();
    await this.#refuseBehind(keys);
    const base = await findBase(this.#objects, keys);
    const entries = findEntries(logKeys(keys), base);
    const found = readJournal(base, entries, await readEntries(this.#objects, entries));
    const last = found.torn ? entries.at(-2) : entries.at(-1);
    this.#slot = (last?.slot ?? base?.slot ?? 0) + 1;
    const previous = last?.epoch ?? base?.epoch ?? "0";
    const head: EntryHead = { kind: "owner", slot: this.#slot, epoch: this.epoch, by: this.#by };
    await this.#objects.put(`${this.keyOf(this.#slot)}.${previous}`, seal(head));
    await this.check();
    this.#written = this.#slot;
    const { groups, store = this.epoch } = found;
    return { base: found.base, groups, entries: found.entries, keys, kept: [], store };
  }

  async append(group: Uint8Array, { kind = "group", at }: EntryNote = {}): Promise<void> {
    const slot = this.#slot + 1;
    if (this.#written < slot) {
      const head: EntryHead = { kind, slot, epoch: this.epoch, at };
      await this.#objects.put(this.keyOf(slot), seal(head, group));
      this.#written = slot;
    }
    await this.check();
    this.#slot = slot;
  }

  async check(): Promise<void> {
    await this.#refuseBehind(await this.#objects.list(MARKERS));
  }

  /** Rejects if there is a higher marker, with whose it is. */
  async #refuseBehind(keys: readonly string[]): Promise<void> {
    const highest = markersOf(keys).sort().at(-1);
    if (highest === undefined || highest <= this.epoch) return;
    const by = unseal<{ by?: Owner }>(await this.#objects.get(`${MARKERS}:${highest}`))?.head.by;
    throw new OwnerLostError(by && `process ${by.pid} on ${by.host}`);
  }
}

const MARKERS = "owners";

/** The epochs of those who have written a marker. */
function markersOf(keys: readonly string[]): string[] {
  return keys.flatMap((key) => (key.startsWith(`${MARKERS}:`) ? [key.slice(MARKERS.length + 1)] : []));
}

function numberOf(epoch: string): number {
  return Number(epoch.split("-")[0]);
}

/**
 * The entries after the base that belong to the journal: those of the latest owner that has started, before its first one
 * those of the owner that it continues, and so on. Others of the same slots were written by owners that had lost it.
 */
function findEntries(all: readonly LogKey[], base: { slot: number; epoch: string } | undefined): LogKey[] {
  const after = base?.slot ?? 0;
  const later = all.filter(({ slot }) => slot > after);
  const starts = new Map(
    later.flatMap((entry) => (entry.previous === undefined ? [] : [[entry.epoch!, entry]])),
  );
  const bySlot = new Map(later.map((entry) => [`${entry.slot} ${entry.epoch}`, entry]));
  const origin = base?.epoch ?? "0";
  let epoch = [origin, ...starts.keys()].sort().at(-1)!;
  let end = Math.max(after, ...later.filter((entry) => entry.epoch === epoch).map(({ slot }) => slot));
  const found: LogKey[] = [];
  for (;;) {
    const start = epoch === origin ? undefined : starts.get(epoch);
    if (epoch !== origin && start === undefined)
      throw damagedChain(`the first entry of the owner ${epoch} is missing`);
    const first = start?.slot ?? after + 1;
    for (let slot = end; slot >= first; slot--) {
      const entry = bySlot.get(`${slot} ${epoch}`);
      if (entry === undefined) throw damagedChain(`log:${pad(slot)}.${epoch} is missing`);
      found.push(entry);
    }
    if (start === undefined) return found.reverse();
    end = first - 1;
    epoch = start.previous!;
  }
}

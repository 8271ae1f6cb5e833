import { randomBytes } from "node:crypto";
import type { Owner } from "../json/manifest.ts";
import {
  type Chain,
  damagedChain,
  type EntryHead,
  type EntryNote,
  findBase,
  logKeys,
  OwnerLostError,
  pad,
  readEntries,
  readJournal,
  type Taken,
} from "./chain.ts";
import { type Objects, seal, unseal } from "./sealed.ts";

/**
 * A journal in a storage that creates objects atomically: each slot is created once, by the first one. An owner takes
 * over by creating the next slot, which the previous owner then cannot, so a group is acknowledged when it is created: one
 * request.
 *
 * The entries of owners are never removed: a slow request of a previous owner could otherwise create its slot later.
 */
export class SlotChain implements Chain {
  readonly epoch: string;
  readonly #objects: Objects;
  readonly #by: Owner | undefined;
  #slot = 0;

  constructor(objects: Objects, options: { by?: Owner; epoch?: string } = {}) {
    this.#objects = objects;
    this.#by = options.by;
    this.epoch = options.epoch ?? randomBytes(8).toString("hex");
  }

  get slot(): number {
    return this.#slot;
  }

  keyOf(slot: number): string {
    return `log:${pad(slot)}`;
  }

  async take(): Promise<Taken> {
    let [keys, base] = await this.#occupy();
    // The slot was used, replaced by a base and removed since it was found free: another one still is the owner.
    while (base !== undefined && base.slot >= this.#slot) [keys, base] = await this.#occupy();
    const first = (base?.slot ?? 0) + 1;
    const entries = logKeys(keys)
      .filter(({ slot }) => slot >= first && slot < this.#slot)
      .sort((a, b) => a.slot - b.slot);
    if (entries.length !== this.#slot - first) {
      const missing = entries.findIndex(({ slot }, at) => slot !== first + at);
      throw damagedChain(`${this.keyOf(first + (missing < 0 ? entries.length : missing))} is missing`);
    }
    const found = readJournal(base, entries, await readEntries(this.#objects, entries));
    if (found.torn) throw damagedChain(`${entries.at(-1)!.key} is not whole`);
    return {
      ...{ base: found.base, groups: found.groups, entries: found.entries, keys },
      kept: [...(base?.kept ?? []), ...found.owners, this.#slot],
      store: found.store ?? this.epoch,
    };
  }

  /** Creates the next slot; resolves with what there is then. */
  async #occupy(): Promise<[keys: string[], base: Taken["base"]]> {
    do this.#slot = Math.max(0, ...slotsOf(await this.#objects.list())) + 1;
    while (!(await this.#create({ kind: "owner", by: this.#by })));
    // From here on nobody else acknowledges or removes anything: what is listed now is all.
    const keys = await this.#objects.list();
    return [keys, await findBase(this.#objects, keys)];
  }

  async append(group: Uint8Array, { kind = "group", at }: EntryNote = {}): Promise<void> {
    this.#slot++;
    try {
      if (await this.#create({ kind, at }, group)) return;
    } catch (error) {
      this.#slot--;
      throw error;
    }
    this.#slot--;
    const entry = unseal<EntryHead>(await this.#objects.get(this.keyOf(this.#slot + 1)));
    throw lostTo(entry?.head);
  }

  async check(): Promise<void> {
    // While a group is on its way, it is looked for after that group.
    const next = unseal<EntryHead>(await this.#objects.get(this.keyOf(this.#slot + 1)));
    if (next !== undefined && next.head.epoch !== this.epoch) throw lostTo(next.head);
  }

  #create(head: Omit<EntryHead, "slot" | "epoch">, content?: Uint8Array): Promise<boolean> {
    const sealed = seal({ ...head, slot: this.#slot, epoch: this.epoch }, content);
    return this.#objects.create!(this.keyOf(this.#slot), sealed);
  }
}

function lostTo(head: EntryHead | undefined): OwnerLostError {
  return new OwnerLostError(head?.by && `process ${head.by.pid} on ${head.by.host}`);
}

function slotsOf(keys: readonly string[]): number[] {
  return logKeys(keys).map(({ slot }) => slot);
}

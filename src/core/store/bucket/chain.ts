import type { Owner } from "../json/manifest.ts";
import { storageError } from "../storage-error.ts";
import { type Objects, seal, unseal } from "./sealed.ts";

/** A file of the store as of some slot, in parts of which each is an object. */
export interface BaseFile {
  readonly name: string;
  readonly size: number;
  readonly parts: readonly { readonly key: string; readonly size: number; readonly crc?: number }[];
}

/** Everything up to a slot, so that older groups are not needed. */
export interface Base {
  readonly slot: number;
  readonly files: readonly BaseFile[];
  /** Slots up to it whose entries must never be removed. */
  readonly kept: readonly number[];
  /** The id of the store, from its first owner. */
  readonly store?: string | undefined;
  /** ISO 8601: everything that was acknowledged on the owner's disk until then is in it, if the owner ships what it has. */
  readonly at?: string | undefined;
}

/** What an owner finds when it takes over. */
export interface Taken {
  readonly base: (Base & { readonly epoch: string }) | undefined;
  /** Groups of lines that follow it, in their order. */
  readonly groups: readonly Buffer[];
  /** The entries of the journal that are still there, in their order, without that of this owner. */
  readonly entries: readonly EntryHead[];
  /** The id of the store: the epoch of its first owner. */
  readonly store: string;
  /** All objects that were there. */
  readonly keys: readonly string[];
  /** Slots, up to that of this owner, whose entries must never be removed. */
  readonly kept: readonly number[];
}

/**
 * The journal in a bucket: groups of lines in numbered slots, which one owner after the other continues. What an owner has
 * acknowledged, each later one finds; what it wrote and did not acknowledge becomes part of the journal or not, and that
 * is decided once, by the next owner.
 */
export interface Chain {
  /** Number of the last slot that belongs to the journal. */
  readonly slot: number;
  /** Names this owner in the keys of its objects; no other owner ever has the same. */
  readonly epoch: string;
  /** Becomes the owner. Rejects if another one does so at the same moment, or the storage fails: try again with a new chain. */
  take(): Promise<Taken>;
  /**
   * Resolves once a group is part of the journal, also for all later owners. Rejects if the storage fails: then it is unknown
   * whether the group was stored, and only the same call with the same group may follow. Rejects with `OwnerLostError` if
   * another owner has taken over. One call at a time.
   */
  append(group: Uint8Array, note?: EntryNote): Promise<void>;
  /** Rejects with `OwnerLostError` if another owner has taken over; may be called at any time. */
  check(): Promise<void>;
  /** The key of an own group. */
  keyOf(slot: number): string;
}

/** Another instance has taken over the journal. */
export class OwnerLostError extends Error {
  override readonly name = "OwnerLostError";
}

/** `base`: the content is that of a base, which replaces everything before. */
export type Kind = "group" | "base" | "owner";

/** What an entry with content says besides. */
export interface EntryNote {
  readonly kind?: "group" | "base" | undefined;
  /** As in a base. */
  readonly at?: string | undefined;
}

export interface EntryHead {
  readonly kind: Kind;
  readonly slot: number;
  readonly epoch: string;
  readonly by?: Owner | undefined;
  readonly at?: string | undefined;
  /** Checksum of the content. */
  readonly crc?: number | undefined;
}

const DIGITS = 12;

/** A number as part of a key: keys are in the order of their numbers. */
export function pad(number: number): string {
  return String(number).padStart(DIGITS, "0");
}

export interface LogKey {
  readonly key: string;
  readonly slot: number;
  readonly epoch: string | undefined;
  /** The owner whose journal it continues, if it is the first entry of an owner. */
  readonly previous: string | undefined;
}

/** The entries among keys: `log:<slot>`, `log:<slot>.<epoch>` or, for the first one of an owner, `log:<slot>.<epoch>.<previous>`. */
export function logKeys(keys: readonly string[]): LogKey[] {
  return keys.flatMap((key) => {
    const [, slot, epoch, previous] = /^log:(\d+)(?:\.([\w-]+)(?:\.([\w-]+))?)?$/.exec(key) ?? [];
    return slot === undefined ? [] : [{ key, slot: Number(slot), epoch, previous }];
  });
}

/** The newest base among keys that is whole. Each that was ever written is right: it only has what was acknowledged. */
export async function findBase(
  objects: Objects,
  keys: readonly string[],
): Promise<(Base & { epoch: string }) | undefined> {
  const bases = keys.filter((key) => key.startsWith("base:")).sort();
  for (const key of bases.reverse()) {
    const base = unseal<{ slot: number; epoch: string }>(await objects.get(key));
    // One that was not written whole has replaced nothing yet.
    if (base === undefined) continue;
    return parseBase(base);
  }
  return undefined;
}

function parseBase({ head, content }: { head: { slot: number; epoch: string }; content: Buffer }) {
  const base = JSON.parse(content.toString()) as Omit<Base, "slot">;
  return { ...base, slot: head.slot, epoch: head.epoch };
}

export function baseKey(slot: number, epoch: string): string {
  return `base:${pad(slot)}.${epoch}`;
}

/** The content of a base, or of an entry that is one. */
export function baseContent({ slot: _, ...content }: Base): Buffer {
  return Buffer.from(JSON.stringify(content));
}

export function sealBase(base: Base, epoch: string): Buffer {
  return seal({ kind: "base", slot: base.slot, epoch }, baseContent(base));
}

/** Reads entries, several at a time. */
export async function readEntries(
  objects: Objects,
  keys: readonly LogKey[],
): Promise<({ head: EntryHead; content: Buffer } | undefined)[]> {
  return inParallel(keys, async ({ key, slot }) => {
    const entry = unseal<EntryHead>(await objects.get(key));
    return entry?.head.slot === slot ? entry : undefined;
  });
}

/** Requests at a time. */
const WIDTH = 16;

export async function inParallel<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const run = async () => {
    while (next < items.length) {
      const at = next++;
      results[at] = await work(items[at]!);
    }
  };
  await Promise.all(Array.from({ length: Math.min(WIDTH, items.length) }, run));
  return results;
}

export function damagedChain(what: string): Error {
  return storageError(
    `The journal in the bucket is damaged: ${what}`,
    "Restore the bucket from a backup, or the deleted objects if it keeps versions.",
  );
}

export interface EntriesFound {
  /** The last base, which may be among the entries, and the groups after it. */
  readonly base: Taken["base"];
  readonly groups: Buffer[];
  readonly entries: EntryHead[];
  /** Slots of owners. */
  readonly owners: number[];
  /** Whether the last entry was not written whole. */
  readonly torn: boolean;
  readonly store: string | undefined;
}

/** What the entries after a base say. All must be there; the last one may be absent if it was not written whole. */
export function readJournal(
  before: Taken["base"],
  keys: readonly LogKey[],
  contents: readonly ({ head: EntryHead; content: Buffer } | undefined)[],
): EntriesFound {
  let base = before;
  let groups: Buffer[] = [];
  let torn = false;
  const entries: EntryHead[] = [];
  for (const [at, entry] of contents.entries()) {
    if (entry === undefined) {
      torn = at === contents.length - 1;
      if (torn) break;
      throw damagedChain(`${keys[at]!.key} is not whole`);
    }
    const { head, content } = entry;
    entries.push(head);
    if (head.kind === "group") groups.push(content);
    if (head.kind === "base") [base, groups] = [parseBase(entry), []];
  }
  const owners = entries.filter(({ kind }) => kind === "owner");
  const store = before?.store ?? owners[0]?.epoch;
  return { base, groups, entries, owners: owners.map(({ slot }) => slot), torn, store };
}

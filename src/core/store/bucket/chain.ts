import type { Owner } from "../json/manifest.ts";
import { storageError } from "../storage-error.ts";
import type { Objects } from "./sealed.ts";
import { seal, unseal } from "./sealed.ts";

/** A file of the store as of some slot, in parts of which each is an object. */
export interface BaseFile {
  readonly name: string;
  readonly size: number;
  readonly parts: readonly { readonly key: string; readonly size: number }[];
}

/** Everything up to a slot, so that older groups are not needed. */
export interface Base {
  readonly slot: number;
  readonly files: readonly BaseFile[];
  /** Slots up to it whose entries must never be removed. */
  readonly kept: readonly number[];
}

/** What an owner finds when it takes over. */
export interface Taken {
  readonly base: Base | undefined;
  /** Groups of lines that follow it, in their order. */
  readonly groups: readonly Buffer[];
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
  append(group: Uint8Array): Promise<void>;
  /** The key of an own group. */
  keyOf(slot: number): string;
}

/** Another instance has taken over the journal. */
export class OwnerLostError extends Error {
  override readonly name = "OwnerLostError";
}

export type Kind = "group" | "owner";

export interface EntryHead {
  readonly kind: Kind;
  readonly slot: number;
  readonly epoch: string;
  readonly by?: Owner | undefined;
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
    const { files, kept } = JSON.parse(base.content.toString()) as Omit<Base, "slot">;
    return { slot: base.head.slot, epoch: base.head.epoch, files, kept };
  }
  return undefined;
}

export function baseKey(slot: number, epoch: string): string {
  return `base:${pad(slot)}.${epoch}`;
}

export function sealBase({ slot, ...content }: Base, epoch: string): Buffer {
  return seal({ kind: "base", slot, epoch }, Buffer.from(JSON.stringify(content)));
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

/** The groups among entries that must all be there; the last one may be absent if it was not written whole. */
export function groupsOf(
  keys: readonly LogKey[],
  entries: readonly ({ head: EntryHead; content: Buffer } | undefined)[],
): { groups: Buffer[]; owners: number[]; torn: boolean } {
  const groups: Buffer[] = [];
  const owners: number[] = [];
  for (const [at, entry] of entries.entries()) {
    if (entry === undefined) {
      if (at === entries.length - 1) return { groups, owners, torn: true };
      throw damagedChain(`${keys[at]!.key} is not whole`);
    }
    if (entry.head.kind === "group") groups.push(entry.content);
    else owners.push(entry.head.slot);
  }
  return { groups, owners, torn: false };
}

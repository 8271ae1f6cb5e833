import type { UnstorageStorage } from "../../storage/open-storage.ts";
import { storageError } from "../storage-error.ts";
import {
  type Generation,
  generationKeys,
  isComplete,
  readManifest,
  readShipped,
  removeGeneration,
  timeOf,
} from "./generation.ts";
import { CONTENTS_ROOT } from "./shipped-contents.ts";

const DAY = 24 * 3_600_000;
/** Backups that are kept however old they are: a clock that is wrong must not remove all. */
const ALWAYS = 5;

/** A backup as a listing shows it. */
export interface Listed {
  readonly id: string;
  readonly made_at: string;
}

/** The complete backups in a storage, the newest last: with one request for each 1000 items. */
export async function listGenerations(storage: UnstorageStorage): Promise<Listed[]> {
  return completeOf(await generationKeys(storage));
}

/** All complete generations, with what their manifests say. */
export async function readGenerations(storage: UnstorageStorage): Promise<Generation[]> {
  const found: Generation[] = [];
  for (const { id } of await listGenerations(storage)) {
    const one = await readManifest(storage, id);
    if (one !== undefined) found.push(one);
  }
  return found;
}

function completeOf(keys: ReadonlyMap<string, readonly string[]>): Listed[] {
  return [...keys]
    .filter(([, own]) => isComplete(own))
    .map(([id]) => ({ id, made_at: timeOf(id) }))
    .sort((a, b) => a.id.localeCompare(b.id));
}

/** The newest backup of a time or before it; of all, without a time. Rejects if there is none. */
export async function findGeneration(storage: UnstorageStorage, at?: Date): Promise<Generation> {
  const all = await listGenerations(storage);
  const found = all.findLast(({ made_at }) => at === undefined || Date.parse(made_at) <= at.getTime());
  const generation = found && (await readManifest(storage, found.id));
  if (generation !== undefined) return generation;
  if (all.length === 0)
    throw storageError("There is no complete backup", "Check the URL, its prefix included.");
  throw storageError(
    `There is no backup of ${at!.toISOString()} or before`,
    `The first one is of ${all[0]!.made_at}.`,
  );
}

/**
 * Which backups are no longer kept: those older than `keep`, and of those older than a day all but the newest of each
 * day. The newest five stay in any case.
 */
export function expired<T extends Listed>(
  all: readonly T[],
  { now, keep }: { now: Date; keep: number },
): T[] {
  const newestFirst = [...all].reverse();
  const days = new Set<string>();
  return newestFirst.filter(({ made_at }, at) => {
    const age = now.getTime() - Date.parse(made_at);
    const day = made_at.slice(0, 10);
    const isFirst = !days.has(day);
    days.add(day);
    return at >= ALWAYS && (age > keep || (age > DAY && !isFirst));
  });
}

/** Removes expired backups, and what interrupted ones have left more than a day ago. */
export async function pruneGenerations(
  storage: UnstorageStorage,
  rule: { now: Date; keep: number },
): Promise<number> {
  const keys = await generationKeys(storage);
  const all = completeOf(keys);
  const complete = new Set(all.map(({ id }) => id));
  const yesterday = new Date(rule.now.getTime() - DAY).toISOString().replace(/[-:.]/g, "");
  const leftovers = [...keys.keys()].filter((id) => !complete.has(id) && id < yesterday);
  const ids = [...expired(all, rule).map(({ id }) => id), ...leftovers];
  for (const id of ids) await removeGeneration(storage, keys.get(id) ?? []);
  const left = all.filter(({ id }) => !ids.includes(id));
  await pruneContents(storage, left, yesterday);
  return ids.length;
}

/** Removes chunks of files that no backup names; those that are younger than a day may be of one that is being made. */
async function pruneContents(
  storage: UnstorageStorage,
  left: readonly Listed[],
  yesterday: string,
): Promise<void> {
  // What a backup that is kept has shipped, it names.
  const kept = new Set(left.map(({ id }) => id));
  const old = (await storage.getKeys(CONTENTS_ROOT)).filter((key) => {
    const shippedBy = key.split(":")[1]!;
    return shippedBy < yesterday && !kept.has(shippedBy);
  });
  if (old.length === 0) return;
  const named = new Set<string>();
  for (const { id } of left) {
    const generation = await readManifest(storage, id);
    // Where a list cannot be read, nothing is removed.
    if (generation) for (const [, at] of (await readShipped(storage, generation)).values()) named.add(at);
  }
  for (const key of old) if (!named.has(key)) await storage.removeItem(key);
}

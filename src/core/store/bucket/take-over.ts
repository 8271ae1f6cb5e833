import { randomBytes } from "node:crypto";
import { delays } from "../../base/backoff.ts";
import type { Durability } from "../durability.ts";
import type { Owner } from "../json/manifest.ts";
import type { Timers } from "../json/timers.ts";
import { storageError } from "../storage-error.ts";
import { ownerLostError } from "./bucket-journal.ts";
import { type Chain, logKeys, OwnerLostError, type Taken } from "./chain.ts";
import { MarkerChain } from "./marker-chain.ts";
import { ALIVE, type Objects, OWNER, RELEASED, seal, unseal, WAITING } from "./sealed.ts";
import { SlotChain } from "./slot-chain.ts";

/** What the last owner says of itself, for people and for those that wait. */
export interface OwnerMark {
  readonly epoch: string;
  readonly by?: Owner;
  readonly durability?: Durability;
  /** Id of the store. */
  readonly store?: string;
}

/** Take-overs at the same moment defeat each other; one of them succeeds after a while. */
const ATTEMPTS = 6;
const PAUSES = delays({ first: 100, most: 3200, jitter: 1 });
/** Milliseconds between two looks for other owners, and for those who wait. */
const BEAT = 10_000;

export interface TakeOverOptions {
  readonly by: Owner;
  readonly durability: Durability;
  /** A new token for each attempt. @default a random one */
  readonly token?: () => string;
}

/** Becomes the owner of the journal. */
export async function takeOver(
  objects: Objects,
  { by, durability, token }: TakeOverOptions,
): Promise<{ chain: Chain; taken: Taken }> {
  for (let attempt = 1; ; attempt++) {
    const chain = await chooseChain(objects, { by, ...(token && { epoch: token() }) });
    try {
      const taken = await chain.take();
      const mark: OwnerMark = { epoch: chain.epoch, by, durability, store: taken.store };
      await objects.put(OWNER, seal(mark));
      return { chain, taken };
    } catch (error) {
      if (!(error instanceof OwnerLostError)) throw error;
      if (attempt === ATTEMPTS) throw ownerLostError(error.message);
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSES(attempt)));
  }
}

/** All owners of a journal must use the same way to exclude each other. */
export async function chooseChain(
  objects: Objects,
  options: { by?: Owner; epoch?: string } = {},
): Promise<Chain> {
  const keys = await objects.list();
  if (keys.some((key) => key.startsWith("owners:"))) return new MarkerChain(objects, options);
  if (objects.create !== undefined) return new SlotChain(objects, options);
  if (logKeys(keys).length === 0) return new MarkerChain(objects, options);
  throw storageError(
    "The store in the bucket was written by a driver that creates objects atomically, and this one cannot",
    "Use the same driver as before, and pass the driver itself as the option storage, not a Storage made of it.",
  );
}

/** The last owner, and whether it has stopped with everything that it acknowledged in the storage. */
export async function readOwner(
  objects: Objects,
): Promise<{ owner: OwnerMark | undefined; isReleased: boolean }> {
  const [mark, released] = await Promise.all([objects.get(OWNER), objects.get(RELEASED)]);
  const owner = unseal<OwnerMark>(mark)?.head;
  const isReleased = owner !== undefined && unseal<{ epoch: string }>(released)?.head.epoch === owner.epoch;
  return { owner, isReleased };
}

/** Milliseconds without a sign of life after which an owner counts as dead, and between two looks for one. */
export const DEAD = 30_000;
const LOOK = 500;

/** The owner that has not released the store and gives a sign of life when it is asked for one. */
export async function findLiveOwner(objects: Objects, dead = DEAD): Promise<OwnerMark | undefined> {
  const before = (await objects.get(ALIVE))?.toString();
  const { owner, isReleased } = await readOwner(objects);
  if (owner === undefined || isReleased) return undefined;
  await objects.put(WAITING, seal({ by: randomBytes(8).toString("hex") }));
  for (const until = performance.now() + dead; performance.now() < until; ) {
    const sign = await objects.get(ALIVE);
    const isOwn = unseal<{ epoch: string }>(sign)?.head.epoch === owner.epoch;
    if (isOwn && sign!.toString() !== before) return owner;
    if ((await readOwner(objects)).isReleased) return undefined;
    await new Promise((resolve) => setTimeout(resolve, LOOK));
  }
  return undefined;
}

/** What an owner does besides its writes. */
export interface OwnerLife {
  readonly objects: Objects;
  readonly chain: Chain;
  readonly timers: Timers;
  readonly journal: { readonly isLost: boolean; check(): Promise<void> };
}

/**
 * Looks every ten seconds whether another instance has taken over, and gives a sign of life while one waits to do so. Ends
 * with whether this owner releases the store.
 */
export function liveAsOwner({ objects, chain, timers, journal }: OwnerLife): {
  end(releases: boolean): Promise<void>;
} {
  let asked: string | undefined;
  let cancel = () => {};
  let hasEnded = false;
  const beat = async () => {
    // All of this is only a hint: a failure is that of the next group, too.
    await look().catch(() => {});
    if (!hasEnded && !journal.isLost) cancel = timers.after(BEAT, () => void beat());
  };
  const look = async () => {
    await journal.check();
    const asking = (await objects.get(WAITING))?.toString();
    if (journal.isLost || asking === asked) return;
    await objects.put(ALIVE, seal({ epoch: chain.epoch, asking }));
    asked = asking;
  };
  cancel = timers.after(BEAT, () => void beat());
  return {
    async end(releases) {
      hasEnded = true;
      cancel();
      if (releases && !journal.isLost)
        await objects.put(RELEASED, seal({ epoch: chain.epoch })).catch(() => {});
    },
  };
}

import { randomUUID } from "node:crypto";
import type { Store } from "../../core/store/store.ts";

/** Time after which a lane of an instance that has ended belongs to nobody, beside the time of one attempt; milliseconds. */
const SPARE = 20_000;
/** What must be left of it for another attempt to begin, beside its time limit. */
const MARGIN = 1000;

/**
 * Lets one instance at a time send the messages of a lane, where several share a store. A claim ends by itself: by the
 * store's clock for the others, and earlier for this instance, which counts from before it asked.
 */
export class LaneClaims {
  readonly #store: Store;
  readonly #attempt: number;
  readonly #owner = randomUUID();
  /** When the claims of this instance end, by `performance.now()`. */
  readonly #ends = new Map<string, number>();

  /** `attempt` is the time limit of an attempt, milliseconds. */
  constructor(store: Store, attempt: number) {
    this.#store = store;
    this.#attempt = attempt;
  }

  /** Claims a lane, or extends the claim; resolves with false where another instance has it. */
  async take(lane: string, { longer = 0 } = {}): Promise<boolean> {
    const asked = performance.now();
    const time = this.#attempt + SPARE + longer;
    const now = (await this.#store.now()).getTime();
    const claim = { id: lane, owner: this.#owner, until: now + time };
    const isTaken = await this.#store.transaction(async (tx) => {
      const before = await tx.get("OutboxLane", lane);
      if (!before) await tx.insert("OutboxLane", claim);
      else if (before.owner !== this.#owner && before.until > now) return false;
      else await tx.change("OutboxLane", lane, () => claim);
      return true;
    });
    if (isTaken) this.#ends.set(lane, asked + time);
    else this.#ends.delete(lane);
    return isTaken;
  }

  /** Whether this instance has a lane for long enough to begin another attempt. */
  has(lane: string): boolean {
    return performance.now() + this.#attempt + MARGIN < (this.#ends.get(lane) ?? 0);
  }

  /** Lets others have a lane immediately; what was delivered must be removed by then. */
  async release(lane: string): Promise<void> {
    if (!this.#ends.delete(lane)) return;
    await this.#store.transaction(async (tx) => {
      if ((await tx.get("OutboxLane", lane))?.owner === this.#owner) await tx.remove("OutboxLane", lane);
    });
  }

  async releaseAll(): Promise<void> {
    for (const lane of [...this.#ends.keys()]) await this.release(lane);
  }

  /** The lanes that other instances have; claims that have ended long ago are removed. */
  async ofOthers(): Promise<Set<string>> {
    const { items } = await this.#store
      .table("OutboxLane")
      .list({ sort: "id", limit: Number.POSITIVE_INFINITY, joins: "soon" });
    const others = items.filter(({ owner }) => owner !== this.#owner);
    if (others.length === 0) return new Set();
    const now = (await this.#store.now()).getTime();
    const isOver = (until: number) => until + SPARE < now;
    const over = others.filter(({ until }) => isOver(until));
    if (over.length > 0) {
      await this.#store.transaction(async (tx) => {
        for (const { id } of over) {
          const claim = await tx.get("OutboxLane", id);
          if (claim && isOver(claim.until)) await tx.remove("OutboxLane", id);
        }
      });
    }
    return new Set(others.filter(({ until }) => until > now).map(({ id }) => id));
  }
}

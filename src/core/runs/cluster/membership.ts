import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { Logger } from "../../base/log.ts";
import { oneAtATime } from "../../base/one-at-a-time.ts";
import type { Instance } from "../../models/own-rows.ts";
import type { Store } from "../../store/store.ts";
import { Pulse } from "./pulse.ts";

/** All in milliseconds. */
export interface LeaseTimes {
  /** Between two signs of life. */
  readonly beat: number;
  /** Before a sign of life that failed is repeated. */
  readonly retry: number;
  /** Between two descriptions of itself for the others. */
  readonly describe: number;
  /** An instance that was not seen for so long is dead: others claim its jobs. */
  readonly dead: number;
  /** An instance that could not give a sign of life for so long ends its own runs. Less than `dead`. */
  readonly giveUp: number;
  /** The row of an instance that was not seen for so long is removed. */
  readonly forget: number;
  /** Between two searches for jobs to claim, and for changes that others have made to its own jobs. */
  readonly look: number;
}

/** The times of instances that are dead after so many milliseconds. */
export function leaseTimes(dead: number): LeaseTimes {
  const look = Math.min(1000, dead / 15);
  return {
    beat: dead / 6,
    retry: look / 4,
    describe: dead / 4,
    dead,
    giveUp: (dead * 2) / 3,
    forget: 3_600_000,
    look,
  };
}

/** With a search each second, and claims one after another, jobs of an instance that is killed run elsewhere within 15 s. */
const TIMES = { ...leaseTimes(15_000), dead: 13_000 };

/** Milliseconds between two searches for rows of instances that were killed long ago. */
const REMOVAL = 60_000;

const NOBODY: ReadonlySet<string> = new Set();

interface MembershipParts {
  readonly store: Store;
  readonly log: Logger;
  readonly times?: Partial<LeaseTimes> | undefined;
  readonly describe: () => Pick<Instance, "agents" | "keys" | "running" | "places">;
}

/**
 * An instance's membership among those that share a store: its signs of life, its row, which describes it, and what it
 * knows of the others. Where it was lost, it comes back under a new id: nothing is its own by then. A store without
 * `lives` has the signs of life in the rows.
 */
export class Membership {
  readonly times: LeaseTimes;
  readonly #parts: MembershipParts;
  #id: string = randomUUID();
  /** Ids under which it is no longer alive, whose rows may still exist. */
  #former: string[] = [];
  #startedAt = "";
  readonly #pulse: Pulse;
  /** When the last sign of life that was stored was asked for, by a clock that nobody sets. */
  #renewedAt = performance.now();
  /** Until when deaths of others are not attributed, by the same clock. */
  #awayUntil = 0;
  #isLost = false;
  /** The id that its row has, and the description that is under way, which does not reject. */
  #described = "";
  #describing: Promise<void> | undefined;
  #nextDescription = 0;
  #nextRemoval = 0;
  /** The store's time as the last look found it, and when that was by the monotonic clock. */
  #clock: { readonly now: number; readonly at: number } | undefined;
  #isClosing = false;
  /** Whether it has not looked around yet; set by who looks. */
  isFirstLook = true;
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;
  /** Called when it may count as dead: its runs must end. */
  onLost: () => void = () => {};
  /** Called again and again while it is alive; not while the last call is under way. */
  onLook: () => Promise<void> = async () => {};

  constructor(parts: MembershipParts) {
    this.#parts = parts;
    this.times = { ...TIMES, ...parts.times };
    const { beat, retry } = this.times;
    this.#pulse = new Pulse({
      ...{ beat, retry },
      give: () => this.#live(),
      onFailure: (error) => parts.log.warn("the instance could not renew its sign of life", { error }),
    });
  }

  /** The `owner` of its jobs. */
  get id(): string {
    return this.#id;
  }

  /** Whether it may begin a job: its id is stored as that of a living instance. */
  get isAlive(): boolean {
    this.check();
    return !this.#isLost;
  }

  /** Stores its row, and keeps it up to date from then on. */
  async join(): Promise<void> {
    this.#startedAt = (await this.#parts.store.now()).toISOString();
    await this.#pulse.start();
    if (!this.#isOver) this.#arm();
  }

  /** The instances that are alive; not itself, while it was lost. */
  async living(): Promise<Instance[]> {
    const { instances, now } = await findLiving(this.#parts.store, this.times.dead);
    this.#clock = { now, at: performance.now() };
    return instances;
  }

  /** Whether the store was away just now: the others could not renew their signs of life either. */
  get wasAway(): boolean {
    return performance.now() < this.#awayUntil;
  }

  /** Looks now, or again once the present look is over. */
  look(): void {
    void this.#look();
  }

  readonly #look = oneAtATime(async () => {
    if (this.#isClosing || this.#isLost) return;
    await this.onLook().catch((error: unknown) => {
      if (!this.#isClosing) this.#parts.log.warn("jobs could not be searched for", { error });
    });
  });

  /** Notices that it may count as dead by now: before anything that only a living one may do. */
  check(): void {
    if (!this.#isLost && performance.now() - this.#renewedAt > this.times.giveUp) this.#lose();
  }

  /** Looks no more. */
  close(): void {
    this.#isClosing = true;
  }

  /** Removes its row, so that nobody waits for its death. */
  async leave(): Promise<void> {
    this.close();
    this.#isOver = true;
    clearTimeout(this.#timer);
    await this.#pulse.stop();
    await this.#describing;
    const { store } = this.#parts;
    await store.table("Instance").remove(this.#id);
    await store.lives?.remove(this.#id, this.times.forget);
  }

  #arm(): void {
    this.#timer = setTimeout(() => this.#tick(), this.times.look).unref();
  }

  #tick(): void {
    this.check();
    const isDue = !this.#isLost && performance.now() >= this.#nextDescription;
    if (this.#parts.store.lives && isDue && !this.#describing) {
      // What keeps it from that is reported where it matters.
      this.#describing = this.#describe(this.#id)
        .catch(() => {})
        .finally(() => {
          this.#describing = undefined;
        });
    }
    this.look();
    if (!this.#isOver) this.#arm();
  }

  #lose(): void {
    this.#isLost = true;
    this.#parts.log.error("the instance could not renew its sign of life: its jobs are left to others");
    this.#former.push(this.#id);
    this.#id = randomUUID();
    this.onLost();
  }

  /** Gives a sign of life. Nobody counts one whose row is missing. */
  async #live(): Promise<void> {
    this.check();
    const { lives } = this.#parts.store;
    const id = this.#id;
    if (!lives || this.#described !== id) await this.#describe(id);
    const askedAt = performance.now();
    await lives?.renew(id);
    // Where it was lost meanwhile, that was the sign of life of its former self.
    if (id !== this.#id) return this.#live();
    if (lives) this.#renewed(askedAt);
  }

  /** Stores its row, in place of those of its former selves. It is a sign of life, too. */
  async #describe(id: string): Promise<void> {
    const { store, describe } = this.#parts;
    const askedAt = performance.now();
    const former = [...this.#former];
    const seen_at = (await this.#now()).toISOString();
    const row: Instance = { id, started_at: this.#startedAt, seen_at, host: hostname(), ...describe() };
    await store.transaction(async (tx) => {
      for (const one of former) await tx.remove("Instance", one);
      if (await tx.get("Instance", id)) await tx.change("Instance", id, () => row);
      else await tx.insert("Instance", row);
    });
    if (id !== this.#id) return;
    this.#described = id;
    this.#nextDescription = performance.now() + this.times.describe;
    this.#former = this.#former.filter((one) => !former.includes(one));
    this.#renewed(askedAt);
    await this.#removeDead(Date.parse(seen_at));
  }

  #renewed(askedAt: number): void {
    if (askedAt - this.#renewedAt > this.times.giveUp) this.#awayUntil = askedAt + this.times.dead;
    this.#renewedAt = Math.max(this.#renewedAt, askedAt);
    this.#isLost = false;
  }

  /** The store's time, or a moment before it: reckoned from a look that is a few seconds old. */
  async #now(): Promise<Date> {
    const { now, at } = this.#clock ?? {};
    const since = performance.now() - (at ?? Number.NEGATIVE_INFINITY);
    if (now === undefined || since > this.times.beat) return this.#parts.store.now();
    return new Date(now + since);
  }

  /** Those that were killed cannot remove their rows, which people see for a while. */
  async #removeDead(now: number): Promise<void> {
    if (performance.now() < this.#nextRemoval) return;
    this.#nextRemoval = performance.now() + Math.min(REMOVAL, this.times.forget / 2);
    const table = this.#parts.store.table("Instance");
    const seen_at = { lt: now - this.times.forget };
    for (const id of await table.ids({ where: { seen_at } })) await table.remove(id);
  }
}

/** The instances of a store that were seen in the last so many milliseconds, and its time, milliseconds since 1970. */
export async function findLiving(
  store: Store,
  dead = TIMES.dead,
): Promise<{ readonly instances: Instance[]; readonly now: number }> {
  const [seen, { items }] = await Promise.all([
    store.lives?.seen(dead) ?? store.now().then((now) => ({ ids: NOBODY, now: now.getTime() })),
    store.table("Instance").list({ sort: "id", limit: Number.POSITIVE_INFINITY, joins: "now" }),
  ]);
  const since = seen.now - dead;
  // An earlier version has its signs of life in its row.
  const instances = items.filter(({ id, seen_at }) => seen.ids.has(id) || Date.parse(seen_at) >= since);
  return { instances, now: seen.now };
}

import type { StoreIo } from "../../src/core/storage/file-io.ts";
import { nodeIo } from "../../src/core/storage/node-io.ts";
import type { Objects } from "../../src/core/store/bucket/sealed.ts";
import { nodeTimers, type Timers } from "../../src/core/store/json/timers.ts";

/** A step at which a process ends: before or after it takes effect. */
export interface DeathAt {
  /** Counted from 0: changes of the disk and requests together. */
  readonly step: number;
  readonly isDone: boolean;
}

const CHANGES = ["write", "truncate", "rename", "remove", "makeFolder"] as const;
const SLOW_CHANGES = ["sync", "writeSynced", "syncFolder"] as const;

/** The disk and the bucket as one process has them, which may end at any step: nothing that it does takes effect after that. */
export class Mortal {
  steps = 0;
  /** Whether the bucket fails. */
  isDown = false;
  isDead = false;
  readonly #death: DeathAt | undefined;
  #end: () => void = () => {};
  readonly ended = new Promise<void>((resolve) => {
    this.#end = resolve;
  });

  readonly #bucket: Objects;

  constructor(bucket: Objects, death?: DeathAt) {
    this.#bucket = bucket;
    this.#death = death;
  }

  die(): void {
    this.isDead = true;
    this.#end();
  }

  get objects(): Objects {
    const bucket = this.#bucket;
    const mortal =
      <A extends unknown[], R>(call: (...args: A) => Promise<R>) =>
      async (...args: A): Promise<R> => {
        const { isLast } = this.#step();
        if (this.isDead && !isLast) return new Promise<R>(() => {});
        if (this.isDown) throw new Error("The bucket is down");
        const result = await call(...args);
        if (isLast) this.die();
        return this.isDead ? new Promise<R>(() => {}) : result;
      };
    return {
      get: mortal(bucket.get),
      put: mortal(bucket.put),
      create: bucket.create && mortal(bucket.create),
      list: mortal(bucket.list),
      remove: mortal(bucket.remove),
    };
  }

  get io(): StoreIo {
    const quick =
      <A extends unknown[], R>(call: (...args: A) => R) =>
      (...args: A): R => {
        const { isLast } = this.#step();
        if (this.isDead && !isLast) throw new Error("This process has ended");
        const result = call(...args);
        if (!isLast) return result;
        this.die();
        throw new Error("This process has ended");
      };
    const slow =
      <A extends unknown[], R>(call: (...args: A) => Promise<R>) =>
      async (...args: A): Promise<R> => {
        const { isLast } = this.#step();
        if (this.isDead && !isLast) return new Promise<R>(() => {});
        const result = await call(...args);
        if (isLast) this.die();
        return this.isDead ? new Promise<R>(() => {}) : result;
      };
    const io = { ...nodeIo, open: quick(nodeIo.open) } as Record<string, unknown>;
    for (const name of CHANGES) io[name] = quick(nodeIo[name] as never);
    for (const name of SLOW_CHANGES) io[name] = slow(nodeIo[name] as never);
    // Immediately, so that nothing of a process is under way after its end.
    io.discard = quick(nodeIo.remove);
    return io as unknown as StoreIo;
  }

  get timers(): Timers {
    return {
      now: nodeTimers.now,
      after: (milliseconds, work) =>
        nodeTimers.after(milliseconds, () => {
          if (!this.isDead) work();
        }),
    };
  }

  /** `isLast`: this one still takes effect, and the process ends after it. */
  #step(): { isLast: boolean } {
    const step = this.steps++;
    if (this.#death === undefined || step !== this.#death.step) return { isLast: false };
    if (!this.#death.isDone) this.die();
    return { isLast: this.#death.isDone };
  }
}

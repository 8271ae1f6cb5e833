import type { Store, Transaction, TransactionOptions } from "../core/store/store.ts";

/**
 * A line of a job's log at which the process ends: `before` it is stored, or after, without an
 * acknowledgment.
 */
export interface Crash {
  readonly jobId: string;
  readonly line: number;
  readonly isBefore: boolean;
}

const never = <T>() => new Promise<T>(() => {});

/** The store of one process: once that has died, it gets no more responses, and its writes are ignored. */
export class MortalStore implements Store {
  readonly #store: Store;
  readonly #crash: Crash | undefined;
  #isDead = false;
  #die: () => void = () => {};
  /** Reads and transactions under way, and the total number. */
  #open = 0;
  #count = 0;
  /** Settles when it has died. */
  readonly died: Promise<void>;

  constructor(store: Store, crash?: Crash) {
    this.#store = store;
    this.#crash = crash;
    this.died = new Promise((resolve) => {
      this.#die = resolve;
    });
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  get isShared(): boolean {
    return this.#store.isShared ?? false;
  }

  get relates(): boolean {
    return this.#store.relates ?? false;
  }

  get isBusy(): boolean {
    return this.#open > 0;
  }

  /** Grows with each read and each transaction. */
  get activity(): number {
    return this.#count;
  }

  die(): void {
    this.#isDead = true;
    this.#die();
  }

  table: Store["table"] = (name) => this.#followed(this.#store.table(name));
  log: Store["log"] = (name) => this.#followed(this.#store.log(name));
  health = () => this.#store.health();
  stats = () => this.#store.stats();
  now = () => this.#follow(this.#store.now());
  /** The next process has the store. */
  close = async () => (this.#isDead ? undefined : this.#store.close());

  get snapshot(): NonNullable<Store["snapshot"]> | undefined {
    return this.#store.snapshot?.bind(this.#store);
  }

  get hints(): Store["hints"] {
    return this.#store.hints;
  }

  /** Once the process has died, no chunk is read or written. */
  get contents(): Store["contents"] {
    const { contents } = this.#store;
    const alive =
      <A extends unknown[], R>(call: (...args: A) => Promise<R>) =>
      (...args: A): Promise<R> =>
        this.#isDead ? never() : this.#follow(call(...args));
    return (
      contents && {
        getItemRaw: alive((key) => contents.getItemRaw(key)),
        setItemRaw: alive((key, value) => contents.setItemRaw(key, value)),
        removeItem: alive((key) => contents.removeItem(key)),
        getKeys: alive((base) => contents.getKeys(base)),
        getMount: (key) => contents.getMount(key),
      }
    );
  }

  get lives(): Store["lives"] {
    const { lives } = this.#store;
    return (
      lives && {
        renew: (id) => (this.#isDead ? never() : lives.renew(id)),
        seen: (within) => this.#follow(lives.seen(within)),
        remove: (id, older) => lives.remove(id, older),
      }
    );
  }

  async transaction<T>(work: (tx: Transaction) => Promise<T>, options?: TransactionOptions): Promise<T> {
    this.#open++;
    this.#count++;
    let isLast = false;
    try {
      return await this.#store.transaction(async (tx) => {
        if (this.#isDead) throw new Error("The process has died");
        const result = await work(this.#watch(tx, () => (isLast = true)));
        if (isLast && this.#crash!.isBefore) throw new Error("The process has died");
        return result;
      }, options);
    } finally {
      if (isLast) this.die();
      if (this.#isDead) await never();
      this.#open--;
    }
  }

  /** A table or a log whose calls count until they have ended: those of a database take their time. */
  #followed<T extends object>(part: T): T {
    return new Proxy(part, {
      get: (_, name) => {
        const method: unknown = Reflect.get(part, name, part);
        if (typeof method !== "function") return method;
        return (...args: unknown[]) => this.#follow(method.apply(part, args));
      },
    });
  }

  #follow<R>(result: R): R {
    if (!(result instanceof Promise)) return result;
    this.#open++;
    this.#count++;
    const end = () => void this.#open--;
    result.then(end, end);
    return result;
  }

  /** Detects when the line at which the process ends is about to be stored. */
  #watch(tx: Transaction, onLine: () => void): Transaction {
    const crash = this.#crash;
    if (!crash) return tx;
    const append: Transaction["append"] = async (log, key, entry) => {
      const line = await tx.append(log, key, entry);
      if (log === "Run" && key === crash.jobId && line >= crash.line) onLine();
      return line;
    };
    return {
      append,
      get: (table, id) => tx.get(table, id),
      ids: (table, field, value) => tx.ids(table, field, value),
      insert: (table, entity) => tx.insert(table, entity),
      change: (table, id, fn) => tx.change(table, id, fn),
      remove: (table, id) => tx.remove(table, id),
      last: (log, key) => tx.last(log, key),
      clear: (log, key) => tx.clear(log, key),
    };
  }
}

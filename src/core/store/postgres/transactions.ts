import { setTimeout as delay } from "node:timers/promises";
import { delays } from "../../base/backoff.ts";
import { getOrMake } from "../../base/get-or-make.ts";
import { Mutex } from "../../base/mutex.ts";
import { storageError } from "../storage-error.ts";
import { FencedError, type IndexValue, type TransactionOptions } from "../store.ts";
import { type AgedId, Attempt, entityKey, facetKey, type Source } from "./attempt.ts";
import { explain } from "./connection.ts";
import type { DatabaseHealth } from "./database-health.ts";
import { changedFacets } from "./group.ts";
import type { Outcome } from "./group-outcome.ts";
import { type EntityHead, type Heads, isPending, type LogHead } from "./heads.ts";
import type { Loader } from "./loader.ts";
import type { TableLayout } from "./table-layout.ts";

/** Milliseconds that a transaction may hold up others, or run again because of conflicts. */
const PATIENCE = 30_000;
/** Number of conflicts with others from which on the patience counts. */
const CONFLICTS = 20;
const CONFLICTED = delays({ first: 1, most: 100, jitter: 1 });

/** What a transaction's work came to: its value, or what it threw. */
type Result<T> = { readonly value: T } | { readonly error: unknown };

interface TransactionsParts {
  readonly layoutOf: (table: string) => TableLayout;
  readonly heads: Heads<EntityHead>;
  readonly logHeads: Heads<LogHead>;
  /** The most changes of facets that are remembered. */
  readonly kept: number;
  readonly loader: Loader;
  readonly health: DatabaseHealth;
  /** Has an attempt stored with others; `settle` is called once it is known what became of it. */
  readonly commit: (attempt: Attempt) => Promise<Outcome>;
  /** Throws once the store is closed. */
  readonly checkOpen: () => void;
}

/** Runs transactions: again where what they have read has changed meanwhile, here or in the database. */
export class Transactions implements Source {
  readonly #parts: TransactionsParts;
  /** Transactions in the order in which they began: they end in this order, too. */
  readonly #mutex = new Mutex();
  /** What is on its way and changes which entities have a facet's value. */
  readonly #facetWrites = new Map<string, Set<Attempt>>();
  /** Number of the last change of a facet's value. */
  readonly #facetChanges = new Map<string, number>();
  /** Ids of entities that this process has inserted since facets' changes are remembered. */
  readonly #inserted = new Set<IndexValue>();
  #changes = 0;
  /** Changes up to this number are forgotten. */
  #forgotten = 0;
  /** What attempts on their way come to. */
  readonly #ends = new Map<Attempt, Promise<unknown>>();
  reads = 0;
  writes = 0;
  conflicts = 0;

  constructor(parts: TransactionsParts) {
    this.#parts = parts;
  }

  async run<T>(work: (attempt: Attempt) => Promise<T>, fence: TransactionOptions["fence"]): Promise<T> {
    const deadline = performance.now() + PATIENCE;
    for (let conflicts = 0; ; conflicts++) {
      this.#parts.checkOpen();
      const { obstacle } = this.#parts.health;
      if (obstacle !== undefined) throw obstacle;
      const turn = this.#mutex.enter();
      let result: Result<T>;
      let end: Promise<Outcome>;
      try {
        let attempt = new Attempt(this, conflicts > 0);
        result = await this.#attempt(work, attempt);
        if (turn) await turn;
        // Until it leaves the line nobody else writes: the next run sees the newest state.
        while (!this.#isCurrent(attempt)) {
          attempt = new Attempt(this, false);
          result = await this.#attempt(work, attempt);
        }
        if ("error" in result) attempt.dropWrites();
        if (fence !== undefined) {
          const refusal = this.#setFence(attempt, fence);
          if (refusal !== undefined) result = { error: refusal };
        }
        end = this.#submit(attempt);
      } finally {
        this.#mutex.leave(turn);
      }
      const outcome = await end;
      if (outcome === "fenced") throw new FencedError(fence!);
      if (outcome === "stored") {
        if ("error" in result) throw result.error;
        return result.value;
      }
      this.conflicts++;
      if (conflicts >= CONFLICTS && performance.now() > deadline) {
        throw storageError(
          "A write kept conflicting with those of other instances",
          "Nothing was changed; retry it.",
        );
      }
      if (conflicts > 0) await delay(CONFLICTED(conflicts));
    }
  }

  /** Runs work; one that others wait for too long is given up. */
  async #attempt<T>(work: (attempt: Attempt) => Promise<T>, attempt: Attempt): Promise<Result<T>> {
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(
        () => reject(new Error(`a transaction blocked other writers for ${PATIENCE / 1000} s`)),
        PATIENCE,
      ).unref();
    });
    try {
      return { value: await Promise.race([work(attempt), limit]) };
    } catch (error) {
      if (this.#parts.health.outage !== undefined && isConnectionLoss(error)) throw explain(error);
      return { error };
    } finally {
      clearTimeout(timer);
      attempt.end();
    }
  }

  /** Whether what an attempt has read is still the newest that this process knows. */
  #isCurrent(attempt: Attempt): boolean {
    for (const other of attempt.after) if (other.state === "failed") return false;
    for (const head of attempt.reads.values()) {
      const newest = this.#parts.heads.newest(head.key);
      if (newest === undefined || newest === head) continue;
      if (isPending(newest) || isPending(head) || newest.version !== head.version) return false;
    }
    for (const head of attempt.logReads.values()) {
      const newest = this.#parts.logHeads.newest(head.key);
      if (newest === undefined || newest === head) continue;
      if (isPending(newest) || isPending(head) || newest.last !== head.last) return false;
    }
    return attempt.idReads.every(
      ({ key, change }) =>
        change >= this.#forgotten &&
        (this.#facetChanges.get(key) ?? 0) <= change &&
        !this.#facetWrites.has(key),
    );
  }

  /**
   * Has the fence checked: here by what is on its way, else by the database. Returns why the transaction must not be
   * stored.
   */
  #setFence(attempt: Attempt, fence: NonNullable<TransactionOptions["fence"]>): Error | undefined {
    const layout = this.layoutOf(fence.table ?? "Job");
    const head = this.#parts.heads.pending(entityKey(layout, fence.job));
    if (head === undefined) {
      attempt.fence = fence;
      attempt.fenceTable = layout;
      return undefined;
    }
    attempt.after.add(head.by!);
    if (head.body?.view<{ run_count?: number }>().run_count === fence.epoch) return undefined;
    attempt.dropWrites();
    // It is final only once what it was seen in is stored.
    return new FencedError(fence);
  }

  /** Passes an attempt on to be stored, or only compared with the database where it has written nothing. */
  #submit(attempt: Attempt): Promise<Outcome> {
    const isDone =
      !attempt.hasWrites && attempt.fence === undefined && attempt.after.size === 0 && attempt.isSingleRead;
    if (isDone) return Promise.resolve("stored");
    this.writes += attempt.puts.size;
    for (const head of attempt.puts.values()) {
      this.#parts.heads.add(head);
      if (attempt.reads.get(head.key)!.body === undefined) this.#inserted.add(head.id);
    }
    for (const { head, entries } of attempt.logWrites.values()) {
      this.#parts.logHeads.add(head);
      this.writes += entries.length;
    }
    for (const key of changedFacets(attempt)) {
      this.#facetChanges.set(key, ++this.#changes);
      getOrMake(this.#facetWrites, key, () => new Set()).add(attempt);
    }
    const end = this.#parts.commit(attempt);
    this.#ends.set(
      attempt,
      end.catch(() => {}),
    );
    return end;
  }

  /** Called when it is known what became of an attempt. */
  settle(attempt: Attempt, outcome: Outcome | "refused"): void {
    this.#ends.delete(attempt);
    if (outcome === "stored") {
      this.#parts.loader.stored++;
      this.#parts.health.answered();
    }
    for (const head of attempt.puts.values()) {
      if (outcome === "stored") this.#parts.heads.settle(head);
      else this.#parts.heads.abandon(head);
    }
    for (const { head } of attempt.logWrites.values()) {
      if (outcome === "stored") this.#parts.logHeads.settle(head);
      else this.#parts.logHeads.abandon(head);
    }
    if (outcome !== "stored") {
      for (const key of attempt.reads.keys()) this.#parts.heads.forget(key);
      for (const key of attempt.logReads.keys()) this.#parts.logHeads.forget(key);
      if (attempt.fence) this.#parts.heads.forget(entityKey(attempt.fenceTable!, attempt.fence.job));
    }
    for (const key of changedFacets(attempt)) {
      const writes = this.#facetWrites.get(key);
      writes?.delete(attempt);
      if (writes?.size === 0) this.#facetWrites.delete(key);
    }
    if (this.#facetChanges.size + this.#inserted.size < this.#parts.kept) return;
    this.#facetChanges.clear();
    this.#inserted.clear();
    this.#forgotten = this.#changes;
  }

  /** Resolves once no transaction is under way. */
  idle(): Promise<void> {
    return this.#mutex.idle();
  }

  // What attempts read.

  layoutOf(name: string): TableLayout {
    return this.#parts.layoutOf(name);
  }

  known(key: string): EntityHead | undefined {
    return this.#parts.heads.pending(key) ?? this.#parts.heads.kept(key);
  }

  pending(key: string): EntityHead | undefined {
    return this.#parts.heads.pending(key);
  }

  load(layout: TableLayout, id: string): Promise<EntityHead> {
    this.reads++;
    return this.#parts.loader.entity(layout, id);
  }

  knownLog(key: string): LogHead | undefined {
    return this.#parts.logHeads.pending(key) ?? this.#parts.logHeads.kept(key);
  }

  pendingLog(key: string): LogHead | undefined {
    return this.#parts.logHeads.pending(key);
  }

  loadLog(log: string, id: string): Promise<LogHead> {
    return this.#parts.loader.end(log, id);
  }

  /** What names an entity that is new has that as a change here: unless another process has done it, which the commit finds. */
  guessNone(key: string, value: IndexValue): number | undefined {
    return this.#inserted.has(value) && !this.#facetChanges.has(key) ? this.#changes : undefined;
  }

  async loadIds(
    layout: TableLayout,
    field: string,
    value: IndexValue,
  ): Promise<{ ids: AgedId[]; change: number }> {
    const key = facetKey(layout, field, value);
    for (let writes = this.#facetWrites.get(key); writes; writes = this.#facetWrites.get(key)) {
      await Promise.all([...writes].map((attempt) => this.#ends.get(attempt)));
    }
    const change = this.#changes;
    const ids = await this.#parts.loader.ids(layout, field, value);
    this.reads += ids.length;
    return { ids, change };
  }
}

function isConnectionLoss(error: unknown): boolean {
  return error instanceof Error && "type" in error && error.type === "storage_error";
}

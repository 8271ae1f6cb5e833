import { ServiceError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { Joins, Store, Tables } from "../store/store.ts";

/** Milliseconds between reads of a table that other instances change, too. */
const REREAD = 2000;
/** Milliseconds without such a read, then nothing in it is believed: it may have been removed. */
const STALE = 60_000;

export interface MirrorParts<Name extends keyof Tables> {
  readonly store: Store;
  readonly log: Logger;
  readonly table: Name;
  /** Topic of hints that the table has changed. */
  readonly hint: string;
  /** What its rows are, as an error names them. */
  readonly rows: string;
  /** Called with all rows after each read. */
  readonly onRows: (rows: readonly Tables[Name][]) => void;
}

/**
 * A small table that every instance has in memory, so that a request waits for no store: read at the start, after each
 * change, and every other second where others change it, too.
 */
export class Mirror<Name extends keyof Tables> {
  readonly #parts: MirrorParts<Name>;
  #loadedAt = Number.NEGATIVE_INFINITY;
  /** Numbers of the last reads: of the one that was asked for, and of the one that is known here. */
  #asked = 0;
  #known = 0;
  #stop: () => void = () => {};

  constructor(parts: MirrorParts<Name>) {
    this.#parts = parts;
  }

  /** Reads the table, and follows what becomes of it. */
  async start(): Promise<void> {
    const { store, hint: topic } = this.#parts;
    await this.#load();
    const stopHints = store.hints.on((hint) => {
      if (hint === "all" || hint.topic === topic) this.#loadLater();
    });
    const timer = store.isShared ? setInterval(() => this.#loadLater("soon"), REREAD).unref() : undefined;
    this.#stop = () => {
      stopHints();
      clearInterval(timer);
    };
  }

  close(): void {
    this.#stop();
  }

  /** Reads the table again, and has the other instances do so. */
  async changed(id: string): Promise<void> {
    await this.#load();
    this.#parts.store.hints.tell(this.#parts.hint, [id]);
  }

  /** Throws where another instance may have changed a row since it was read. */
  assertFresh(): void {
    const { store, rows } = this.#parts;
    if (!store.isShared || performance.now() - this.#loadedAt < STALE) return;
    throw new ServiceError("unavailable", `Whether ${rows} is still valid cannot be read from the store`, {
      detail: "Try again later; the service's log says why.",
      headers: { "retry-after": "5" },
    });
  }

  #loadLater(joins?: Joins): void {
    const { log, rows } = this.#parts;
    this.#load(joins).catch((error: unknown) =>
      log.warn(`whether ${rows} is still valid could not be read`, { error }),
    );
  }

  /** What was asked for earlier must not take the place of what was asked for later. */
  async #load(joins: Joins = "now"): Promise<void> {
    const { store, table, onRows } = this.#parts;
    const began = performance.now();
    const number = ++this.#asked;
    const { items } = await store.table(table).list({ limit: Number.POSITIVE_INFINITY, joins });
    if (number < this.#known) return;
    this.#known = number;
    onRows(items);
    this.#loadedAt = began;
  }
}

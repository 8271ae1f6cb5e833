import { getOrMake } from "../base/get-or-make.ts";
import type { UnstorageStorage } from "../storage/open-storage.ts";
import type { Backend, Change, EntryRange, StoreLog, StoreTable } from "./engine/backend.ts";
import type { Body } from "./engine/body.ts";
import { createStoreTables, TransactionalStore } from "./engine/transactional-store.ts";
import type { StoreFactory } from "./store.ts";

/**
 * Creates a store that keeps everything in memory, for tests and experiments: it is lost with the process.
 */
export const createMemoryStore: StoreFactory = async ({ tables: specs }) => {
  const tables = createStoreTables(specs);
  return new TransactionalStore({ tables, backend: new MemoryBackend(), contents: new MemoryContents() });
};

/** Contents of files, in memory. */
class MemoryContents implements UnstorageStorage {
  readonly #items = new Map<string, Uint8Array>();

  async getItemRaw(key: string): Promise<unknown> {
    return this.#items.get(key) ?? null;
  }

  async setItemRaw(key: string, value: Uint8Array): Promise<void> {
    this.#items.set(key, Buffer.from(value));
  }

  async removeItem(key: string): Promise<void> {
    this.#items.delete(key);
  }

  async getKeys(base = ""): Promise<string[]> {
    return [...this.#items.keys()].filter((key) => key.startsWith(base));
  }

  getMount(): object {
    return {};
  }
}

/** Entities and entries as JSON in memory, so that no caller can change what is stored. */
export class MemoryBackend implements Backend {
  readonly database = "memory";
  readonly #bodies = new Map<StoreTable, Body[]>();
  /** By the name of their log. */
  readonly #entries = new Map<string, Map<string, string[]>>();

  body(table: StoreTable, slot: number): Body {
    return this.#bodiesOf(table)[slot]!;
  }

  bodyOf(table: StoreTable, slot: number): Body {
    return this.body(table, slot);
  }

  async bodies(table: StoreTable, slots: readonly number[]): Promise<Body[]> {
    return slots.map((slot) => this.body(table, slot));
  }

  lastOf(log: StoreLog, key: string): number {
    return this.#entries.get(log.name)?.get(key)?.length ?? 0;
  }

  async entries<T>(
    log: StoreLog,
    key: string,
    { from, to }: EntryRange,
    read: (text: string) => T,
  ): Promise<T[]> {
    const texts = this.#entries.get(log.name)?.get(key) ?? [];
    return texts.slice(from - 1, to).map((text) => read(text));
  }

  commit(changes: readonly Change[], done: (error?: Error) => void): void {
    for (const change of changes) this.#apply(change);
    done();
  }

  health() {
    return { writable: true };
  }

  bytes(): undefined {
    return undefined;
  }

  details() {
    return {};
  }

  async close(): Promise<void> {}

  #apply(change: Change): void {
    if (change.kind === "put") {
      this.#bodiesOf(change.table)[change.table.index.put(change.id, change.record)] = change.body;
      return;
    }
    if (change.kind === "delete") {
      const slot = change.table.index.delete(change.id);
      if (slot !== undefined) delete this.#bodiesOf(change.table)[slot];
      return;
    }
    const entries = this.#entriesOf(change.log);
    if (change.kind === "clear") {
      entries.delete(change.key);
      return;
    }
    getOrMake(entries, change.key, () => []).push(change.text);
  }

  #bodiesOf(table: StoreTable): Body[] {
    return getOrMake(this.#bodies, table, () => []);
  }

  #entriesOf(log: StoreLog): Map<string, string[]> {
    return getOrMake(this.#entries, log.name, () => new Map());
  }
}

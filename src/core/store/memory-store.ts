import type { Backend, Change, StoreLog, StoreTable } from "./backend.ts";
import { getOrMake } from "./get-or-make.ts";
import type { StoreFactory } from "./store.ts";
import { createStoreTables, TransactionalStore } from "./transactional-store.ts";

/** Makes a store that keeps everything in memory, for tests and trials: it ends with the process. */
export const createMemoryStore: StoreFactory = async ({ tables: specs }) => {
  const tables = createStoreTables(specs);
  return new TransactionalStore({ tables, backend: new MemoryBackend() });
};

/** Entities and entries as JSON in memory, so that no caller can alter what is stored. */
class MemoryBackend implements Backend {
  readonly database = "memory";
  readonly #texts = new Map<StoreTable, string[]>();
  readonly #entries = new Map<StoreLog, Map<string, string[]>>();

  text(table: StoreTable, slot: number): string {
    return this.#textsOf(table)[slot]!;
  }

  textOf(table: StoreTable, slot: number): string {
    return this.text(table, slot);
  }

  async texts(table: StoreTable, slots: readonly number[]): Promise<string[]> {
    return slots.map((slot) => this.text(table, slot));
  }

  lastOf(log: StoreLog, key: string): number {
    return this.#entries.get(log)?.get(key)?.length ?? 0;
  }

  async entries(log: StoreLog, key: string, from: number, to: number): Promise<string[]> {
    return (
      this.#entries
        .get(log)
        ?.get(key)
        ?.slice(from - 1, to) ?? []
    );
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
      this.#textsOf(change.table)[change.table.index.put(change.id, change.record)] = change.text;
      return;
    }
    if (change.kind === "delete") {
      const slot = change.table.index.delete(change.id);
      if (slot !== undefined) this.#textsOf(change.table)[slot] = "";
      return;
    }
    const entries = this.#entriesOf(change.log);
    if (change.kind === "clear") {
      entries.delete(change.key);
      return;
    }
    getOrMake(entries, change.key, () => []).push(change.text);
  }

  #textsOf(table: StoreTable): string[] {
    return getOrMake(this.#texts, table, () => []);
  }

  #entriesOf(log: StoreLog): Map<string, string[]> {
    return getOrMake(this.#entries, log, () => new Map());
  }
}

import type { Driver } from "unstorage";
import type { Entity, Store, Table, TableName } from "./store.ts";

const DRIVER_NAME = "agent-control-store";
/** Entities read at once while keys are listed. */
const PAGE = 500;
/** Ids that unstorage leaves as they are in a key. */
const PLAIN_ID = /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/;

export interface StoreDriverOptions {
  readonly store: Store;
  /** Tables to show. @default ["Job", "Case"] */
  readonly tables?: readonly TableName[];
}

/**
 * Shows a store as an unstorage driver: `Job:<id>` is the key of a job. Values never pass through unstorage's parser, which
 * drops some keys; transactions, lists and logs are behind `getInstance()`.
 *
 * @example
 * const storage = createStorage({ driver: storeDriver({ store }) });
 * await storage.getItem("Job:a1");
 */
export function storeDriver(options: StoreDriverOptions): Driver<StoreDriverOptions, Store> {
  const { store, tables = ["Job", "Case"] } = options;
  const tableOf = (key: string): { table: Table<Entity>; name: TableName; id: string } | undefined => {
    const [name, ...rest] = key.split(":");
    const known = tables.find((table) => table === name);
    if (known === undefined || rest.length !== 1) return undefined;
    return { table: store.table(known) as unknown as Table<Entity>, name: known, id: fromKey(rest[0]!) };
  };
  return {
    name: DRIVER_NAME,
    options,
    getInstance: () => store,
    hasItem: async (key) => {
      const found = tableOf(key);
      return found !== undefined && (await found.table.get(found.id)) !== undefined;
    },
    getItem: async (key) => {
      const found = tableOf(key);
      return ((await found?.table.get(found.id)) ?? null) as never;
    },
    setItem: async (key, value) => {
      const found = tableOf(key);
      if (found === undefined) throw new TypeError(`Key "${key}" is not of the form <table>:<id>`);
      const entity = JSON.parse(value) as Entity;
      if (entity.id !== found.id) throw new TypeError(`The value of "${key}" must have the id "${found.id}"`);
      await store.transaction(async (tx) => {
        await tx.remove(found.name, found.id);
        await tx.insert(found.name, entity as never);
      });
    },
    removeItem: async (key) => {
      const found = tableOf(key);
      await found?.table.remove(found.id);
    },
    getKeys: async (base = "") => {
      const keys: string[] = [];
      for (const name of tables) {
        if (!`${name}:`.startsWith(base.slice(0, name.length + 1))) continue;
        for await (const id of idsOf(store.table(name) as unknown as Table<Entity>))
          keys.push(`${name}:${toKey(id)}`);
      }
      return keys;
    },
    dispose: () => store.close(),
  };
}

async function* idsOf(table: Table<Entity>): AsyncIterable<string> {
  for (let skip = 0; ; skip += PAGE) {
    const { items, total } = await table.list({ sort: "id", limit: PAGE, skip });
    for (const { id } of items) yield id;
    if (skip + PAGE >= total) return;
  }
}

/** unstorage cuts, joins or refuses keys with some characters: such ids are written as the hex of their UTF-16 units. */
function toKey(id: string): string {
  return PLAIN_ID.test(id) ? id : `~${Buffer.from(id, "utf16le").toString("hex")}`;
}

function fromKey(key: string): string {
  return key.startsWith("~") ? Buffer.from(key.slice(1), "hex").toString("utf16le") : key;
}

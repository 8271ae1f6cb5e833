import { type NamesOf, refuseUnknown } from "../base/refuse-unknown.ts";
import { toJob } from "../models/job.ts";
import type { Entity, Store, Table, TableName } from "./store.ts";

const DRIVER_NAME = "agent-control-store";
/** Entities read per batch while keys are listed. */
const PAGE = 500;
/** Ids that unstorage leaves as they are in a key. */
const PLAIN_ID = /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/;

export interface StoreDriverOptions {
  readonly store: Store;
  /** Tables to show. @default ["Job", "Case"] */
  readonly tables?: readonly TableName[];
}

const NAMES: NamesOf<StoreDriverOptions> = { store: true, tables: true };

/** A driver for `createStorage` of unstorage. Its own type would bring those of all its drivers along. */
export interface StoreDriver {
  readonly name: string;
  readonly options: StoreDriverOptions;
  hasItem(key: string): Promise<boolean>;
  getItem(key: string): Promise<Entity | null>;
  getKeys(base?: string): Promise<string[]>;
  /** Throws, as `removeItem` does. */
  setItem(key: string): never;
  removeItem(key: string): never;
}

/**
 * Shows a store as an unstorage driver that only reads: `Job:<id>` is the key of a job, and its value what the service
 * gives out of it. Jobs and cases change by their own rules, which a key and a value cannot say: writing throws. Values
 * never pass through unstorage's parser, which drops some keys.
 *
 * @example
 * const storage = createStorage({ driver: storeDriver({ store }) });
 * await storage.getItem("Job:a1");
 */
export function storeDriver(options: StoreDriverOptions): StoreDriver {
  refuseUnknown(options, NAMES, "storeDriver");
  const { store, tables = ["Job", "Case"] } = options;
  const read = async (key: string): Promise<Entity | undefined> => {
    const [name, ...rest] = key.split(":");
    const known = tables.find((table) => table === name);
    if (known === undefined || rest.length !== 1) return undefined;
    const id = fromKey(rest[0]!);
    if (known !== "Job") return store.table(known).get(id);
    const job = await store.table("Job").get(id);
    return job && toJob(job, await store.table("Case").ids({ where: { job_id: id }, sort: "created_at" }));
  };
  return {
    name: DRIVER_NAME,
    options,
    hasItem: async (key) => (await read(key)) !== undefined,
    getItem: async (key) => (await read(key)) ?? null,
    // Without these, unstorage takes a write for done.
    setItem: refuse,
    removeItem: refuse,
    getKeys: async (base = "") => {
      const keys: string[] = [];
      for (const name of tables) {
        if (!`${name}:`.startsWith(base.slice(0, name.length + 1))) continue;
        for await (const id of idsOf(store.table(name) as unknown as Table<Entity>))
          keys.push(`${name}:${toKey(id)}`);
      }
      return keys;
    },
  };
}

function refuse(key: string): never {
  throw new TypeError(`"${key}" cannot be written: the driver is read-only. Use the service's API`);
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

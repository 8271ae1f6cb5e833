import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { testServer } from "agent-control-service/testing";
import memoryDriver from "unstorage/drivers/memory";
import { describe, expect, it, onTestFinished } from "vitest";
import { resolveOptions } from "../../src/core/service/options.ts";
import type { StorageLike } from "../../src/core/storage/open-storage.ts";
import { BucketPlace } from "../../src/core/store/bucket/bucket-place.ts";
import { makeCase, makeJob } from "../../src/core/store/contract/fixtures.ts";
import { Keyring, NO_KEYS } from "../../src/core/store/encryption/keyring.ts";
import { sealedPlace } from "../../src/core/store/encryption/sealed-place.ts";
import { isSealed } from "../../src/core/store/encryption/sealed-row.ts";
import { sealStore } from "../../src/core/store/encryption/sealed-store.ts";
import { FolderPlace } from "../../src/core/store/json/folder-place.ts";
import { openJsonStore } from "../../src/core/store/json/json-store.ts";
import { backupStore, exportStore, importStore, verifyStore } from "../../src/core/store/maintenance.ts";
import { createMemoryStore } from "../../src/core/store/memory-store.ts";
import { moveStore } from "../../src/core/store/move.ts";
import { DatabasePlace } from "../../src/core/store/postgres/database-place.ts";
import { openPostgresStore } from "../../src/core/store/postgres/postgres-store.ts";
import type { Store, StoreFactory } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { borrowSchema, sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { greeter } from "../_setup.ts";
import { bytesUnder, MARKERS, markersIn, runSecretive, secretive } from "./_encrypted.ts";
import { newKey } from "./_key.ts";

const log = { info() {}, warn() {}, error() {} };

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "encryption-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

async function opened(open: StoreFactory, dataDir: string, ...texts: string[]): Promise<Store> {
  const store = await sealStore(open, new Keyring(texts))({ tables: CORE_TABLES, dataDir, log });
  onTestFinished(() => store.close());
  return store;
}

/** Runs the jobs in a service with a data folder. */
async function run(dataDir: string, ...keys: string[]): Promise<void> {
  const encryption = keys.length > 0 ? { encryption: { keys } } : {};
  await using server = await testServer({ agents: [secretive], store: undefined, dataDir, ...encryption });
  await runSecretive(server);
}

/** What a service answers about the jobs in a data folder. */
async function shown(dataDir: string, ...keys: string[]): Promise<string> {
  const encryption = keys.length > 0 ? { encryption: { keys } } : {};
  await using server = await testServer({ agents: [secretive], store: undefined, dataDir, ...encryption });
  const { items } = (await (await server.request("/admin/api/jobs")).json()) as { items: { id: string }[] };
  const texts = await Promise.all(
    items.flatMap(({ id }) =>
      [`/jobs/${id}/result`, `/jobs/${id}/cases`, `/jobs/${id}/stream`].map(async (path) =>
        (await server.request(path)).text(),
      ),
    ),
  );
  for (const { id } of items) {
    const files = (await (await server.request(`/jobs/${id}/files`)).json()) as {
      sha256: string;
      name: string;
    }[];
    for (const { sha256, name } of files)
      texts.push(name, await (await server.request(`/jobs/${id}/files/${sha256}`)).text());
  }
  return texts.join("\n");
}

const SHOWN = MARKERS.filter((marker) => !/event|title|log line/.test(marker));

describe("a data folder", () => {
  it("has none of the content of jobs and files, and all of it without keys", async () => {
    const [plain, sealed] = [folder(), folder()];
    const key = newKey();
    await run(plain);
    await run(sealed, key);
    expect(MARKERS.filter((marker) => !markersIn(bytesUnder(plain)).includes(marker))).toEqual([]);
    expect(markersIn(bytesUnder(sealed))).toEqual([]);
    const text = await shown(sealed, key);
    expect(SHOWN.filter((marker) => !text.includes(marker))).toEqual([]);
  });

  it("has none of it in a backup, which its key reads", async () => {
    const [data, key] = [folder(), newKey()];
    await run(data, key);
    const backup = join(folder(), "backup");
    const copied = await backupStore(data, backup);
    expect(copied.unchecked).toBe(1);
    expect((await backupStore(data, join(folder(), "b"), new Keyring([key]))).unchecked).toBe(0);
    expect(markersIn(bytesUnder(backup))).toEqual([]);
    expect(await shown(backup, key)).toContain("marker of the file");
    expect((await verifyStore(backup, new Keyring([key]))).problems).toEqual([]);
  });

  it("is exported as plain text with its keys, refused without them, and imported encrypted", async () => {
    const [data, key] = [folder(), newKey()];
    await run(data, key);
    const out = folder();
    await expect(exportStore(data, folder())).rejects.toThrow(/is encrypted with the key [0-9a-f]{8}/);
    await exportStore(data, out, new Keyring([key]));
    expect(markersIn(bytesUnder(out))).toEqual(MARKERS);
    const imported = join(folder(), "data");
    await importStore(out, imported, new Keyring([key]));
    expect(markersIn(bytesUnder(imported))).toEqual([]);
    expect(await shown(imported, key)).toContain("marker of the file");
  });
});

describe("keys", () => {
  it("are rotated: the former one is still read, and the new one encrypts", async () => {
    const [data, one, two] = [folder(), newKey(), newKey()];
    await run(data, one);
    await run(data, two, one);
    const text = await shown(data, two, one);
    expect(SHOWN.filter((marker) => !text.includes(marker))).toEqual([]);
    for (const key of [one, two])
      await expect(opened(openJsonStore, data, key)).rejects.toThrow(/encrypted with the key/);
  });

  it("that are missing or wrong have the store refused by name, and nothing is written", async () => {
    const [data, key] = [folder(), newKey()];
    await run(data, key);
    const before = bytesUnder(data).map(String).sort();
    for (const others of [[], [newKey()], ["off", newKey()]]) {
      const encryption = others.length > 0 ? { encryption: { keys: others } } : {};
      const start = testServer({ agents: [secretive], store: undefined, dataDir: data, ...encryption });
      await expect(start).rejects.toThrow(
        new RegExp(`the key ${new Keyring([key]).sealsWith}, which is missing`),
      );
    }
    const lines = (texts: readonly string[]) => texts.filter((text) => text.includes('"t":"Job"'));
    expect(lines(bytesUnder(data).map(String).sort())).toEqual(lines(before));
    expect(await shown(data, key)).toContain("marker of the result");
  });

  it("are turned on for a store that has content, which is still read, and off again", async () => {
    const [data, key] = [folder(), newKey()];
    await run(data);
    await run(data, key);
    const text = await shown(data, key);
    expect(SHOWN.filter((marker) => !text.includes(marker))).toEqual([]);
    await run(data, "off", key);
    expect(await shown(data, "off", key)).toContain("marker of the result");
  });

  it("a move encrypts all with the first key, so that the former ones and plain text are gone", async () => {
    const [data, one, two] = [folder(), newKey(), newKey()];
    await run(data);
    await run(data, one);
    const keys = new Keyring([two, one]);
    const target = join(folder(), "data");
    const [from, to] = [sealedPlace(new FolderPlace(data), keys), sealedPlace(new FolderPlace(target), keys)];
    const parts = { now: () => new Date(), newId: () => "move-1" };
    await moveStore({ source: from, target: to, ...parts });
    expect(markersIn(bytesUnder(target))).toEqual([]);
    const text = await shown(target, two);
    expect(SHOWN.filter((marker) => !text.includes(marker))).toEqual([]);

    const off = new Keyring(["off", two]);
    const plain = join(folder(), "data");
    const back = [
      sealedPlace(new FolderPlace(target), off),
      sealedPlace(new FolderPlace(plain), off),
    ] as const;
    await moveStore({ source: back[0], target: back[1], ...parts });
    expect(markersIn(bytesUnder(plain))).toEqual(MARKERS);
    expect(await shown(plain)).toContain("marker of the file");
  });

  it("are 32 random bytes each; the error has no value", () => {
    const [key, other] = [newKey(), newKey()];
    const resolve = (...keys: string[]) =>
      resolveOptions({ agents: [greeter], encryption: { keys } }, {}, false).encryption!;
    expect(resolve(key, other).sealsWith).toBe(resolve(Buffer.from(key, "base64").toString("hex")).sealsWith);
    for (const wrong of [
      [],
      ["off"],
      [key.slice(0, -4)],
      ["a".repeat(64)],
      [key, key],
      [key, "off"],
      ["secret"],
    ])
      expect(() => resolve(...wrong)).toThrow(/must have different keys of 32 random bytes/);
    expect(() => resolve(`${key}x`)).toThrow(expect.not.stringContaining(key.slice(0, 12)) as never);
    expect(
      resolveOptions({ agents: [greeter] }, { SERVICE_ENCRYPTION_KEYS: `${key}, ${other}` }, false)
        .encryption,
    ).toMatchObject({ sealsWith: resolve(key).sealsWith });
  });
});

describe("a stored value", () => {
  /** A store with keys, and the same store as it keeps its rows. */
  async function both() {
    let inner!: Store;
    const open: StoreFactory = async (context) => {
      inner = await createMemoryStore(context);
      return inner;
    };
    return { store: await opened(open, "", newKey()), raw: () => inner };
  }

  it("that was moved from another row, log, entry or table is refused by name", async () => {
    const { store, raw } = await both();
    for (const id of ["a", "b"]) await store.table("Job").insert(makeJob(id));
    await store.table("Case").insert(makeCase("a", "a"));
    for (const text of ["one", "two"])
      await store.log("Run").append("a", { type: "mark", mark: "note", at: text });
    const stored = (await raw().table("Job").get("b"))!;
    expect(isSealed(stored)).toBe(true);
    await expect(
      raw()
        .table("Job")
        .change("a", (row) => ({ ...stored, id: row.id })),
    ).rejects.toThrow(/Job "a" cannot be decrypted: it is not what was encrypted there/);
    const kept = raw().table("DeletedJob");
    await expect(kept.insert(stored as never)).rejects.toThrow(/DeletedJob "b" cannot be decrypted/);
    const [first, second] = await raw().log("Run").read("a");
    await raw().log("Run").append("b", first!.entry);
    await raw().log("Run").append("b", first!.entry);
    await expect(store.log("Run").read("b")).rejects.toThrow(/Entry 1 of log Run "b" cannot be decrypted/);
    await raw().transaction(async (tx) => {
      await tx.clear("Run", "a");
      await tx.append("Run", "a", second!.entry);
    });
    await expect(store.log("Run").read("a")).rejects.toThrow(/Entry 1 of log Run "a" cannot be decrypted/);
  });

  it("that was changed anywhere, or cut, is refused", () => {
    const keys = new Keyring([newKey()]);
    const sealed = keys.seal("content", ["Job", "a"]);
    expect(keys.open(sealed, ["Job", "a"], "it").toString()).toBe("content");
    for (let at = 0; at < sealed.length; at++) {
      const changed = Buffer.from(sealed);
      changed[at]! ^= 1;
      expect(() => keys.open(changed, ["Job", "a"], "it"), `byte ${at}`).toThrow(/it (cannot|is encrypted)/);
    }
    for (let length = 0; length < sealed.length; length++)
      expect(() => keys.open(sealed.subarray(0, length), ["Job", "a"], "it")).toThrow();
    expect(() => NO_KEYS.open(sealed, ["Job", "a"], "it")).toThrow(/which is missing/);
  });

  it("has a fence that cannot be changed", async () => {
    const { store, raw } = await both();
    await store.table("Job").insert(makeJob("a", { run_count: 3 }));
    const change = raw()
      .table("Job")
      .change("a", (row) => ({ ...row, run_count: 4 }));
    await expect(change).rejects.toThrow(/Job "a" is damaged: its run_count/);
    expect(await store.table("Job").get("a")).toMatchObject({ run_count: 3 });
  });

  it("is never encrypted twice to the same bytes", () => {
    const keys = new Keyring([newKey()]);
    const all = Array.from({ length: 1000 }, () => keys.seal("content", ["Job", "a"]).toString("base64"));
    expect(new Set(all).size).toBe(1000);
  });
});

it("a search finds ids and names, and says that it finds no content", async () => {
  await using server = await testServer({ agents: [secretive], encryption: { keys: [newKey()] } });
  await runSecretive(server);
  const search = async (text: string) =>
    (await server.request(`/admin/api/jobs?search=${encodeURIComponent(text)}`)).json();
  expect(await search("secretive")).toMatchObject({ total: 2, searched: ["id", "name"] });
  expect(await search("marker")).toMatchObject({ total: 0, searched: ["id", "name"] });
  const path = "/admin/jobs?search=marker";
  const page = await (await server.request(path, { headers: { accept: "text/html" } })).text();
  expect(page).toContain("A search finds ids and names only, as the store is encrypted.");
  const files = await server.request("/files?search=marker");
  expect([files.status, await files.text()]).toEqual([
    422,
    expect.stringContaining("An encrypted store cannot be searched"),
  ]);
  await using plain = await testServer({ agents: [greeter] });
  expect(await (await plain.request("/admin/api/jobs?search=x")).json()).not.toHaveProperty("searched");
});

/** Reviewed: what is readable in an encrypted store without keys, besides ids. */
const READABLE: Readonly<Record<string, string>> = {
  Job: "status stop_reason forked_from agent_name name workspace_id mission_id idempotency_key parent_id schedule_id created_at updated_at finished_at case_count total_cost duration wake_at waits_for tags started_by run_count owner parked access failure",
  Case: "status job_id ref name created_at updated_at finished_at total_cost duration deadline assigned_to notice_at",
  DeletedJob: "status agent_name name workspace_id access finished_at deleted_at",
  DeletedCase: "job_id deleted_at",
  KeyedRequest: "job_id",
  ShownQuestion: "job_id",
  ReceivedEvent: "name n created_at",
  EventWait: "job_id shape match event",
  Instance: "everything",
  KeyMark: "everything",
  Probe: "created_at run_count",
  ModelUse: "day agent model",
  Spending: "agent month",
  Access: "name",
  FileUpload: "sha256 touched_at unused_of",
  JobFile: "job_id sha256 workspace agent_name access created_at kind origin",
  JobResult: "job_id sha256",
  FileRemoval: "due_at",
  Revocation: "until",
  WorkspaceSpending: "workspace month",
};

it("what is readable of each table is listed and reviewed", () => {
  const rows: Record<string, object> = {
    ...{ Job: makeJob("a"), Case: makeCase("a", "b") },
    JobFile: {
      names: [{ name: "a.txt", type: "text/plain", origin: "step" }],
      created_at: "2026-01-31T09:30:00.000Z",
    },
  };
  const any = new Proxy({}, { get: () => "2026-01-31T09:30:00.000Z" });
  const found = CORE_TABLES.map(({ name, readable, index }): [string, string] => [
    name,
    readable === true ? "everything" : Object.keys(index((rows[name] ?? any) as never)).join(" "),
  ]);
  expect(Object.fromEntries(found.filter(([, fields]) => fields !== ""))).toEqual(READABLE);
});

describe("a storage", () => {
  it("has none of the content of jobs", async () => {
    const written: Buffer[] = [];
    const driver = memoryDriver() as { setItemRaw?: unknown; setItem?: unknown } & StorageLike;
    for (const name of ["setItem", "setItemRaw"] as const) {
      const set = driver[name] as ((...all: unknown[]) => unknown) | undefined;
      if (set)
        Object.assign(driver, {
          [name]: (key: string, value: Uint8Array | string, ...rest: unknown[]) => {
            written.push(Buffer.from(key), Buffer.from(value as string));
            return set(key, value, ...rest);
          },
        });
    }
    const key = newKey();
    const { bucketStore } = await import("../../src/core/store/bucket/bucket-store.ts");
    const store = bucketStore(driver, { durability: "bucket" } as never);
    await using server = await testServer({ agents: [secretive], store, encryption: { keys: [key] } });
    await runSecretive(server);
    expect(written.length).toBeGreaterThan(10);
    expect(markersIn(written)).toEqual([]);
  });
});

describe.skipIf(!requirement("postgres").met)("a database", () => {
  async function database() {
    const cluster = await sharedCluster();
    const schema = await borrowSchema(cluster);
    const open: StoreFactory = (context) => openPostgresStore(context, { url: cluster.url, schema });
    const dump = async () => {
      const tables = await cluster.query(
        `select quote_ident(tablename) as name from pg_tables where schemaname = '${schema}'`,
      );
      const all: string[] = [];
      for (const { name } of tables as { name: string }[]) {
        const rows = await cluster.query(`select t::text as row from ${schema}.${name} t`);
        all.push(...(rows as { row: string }[]).map(({ row }) => row));
      }
      return all;
    };
    return { open, dump, url: cluster.url, schema };
  }

  it("has none of the content of jobs", async () => {
    const { open, dump, url, schema } = await database();
    const key = newKey();
    const given = { agents: [secretive], store: open };
    {
      await using server = await testServer({ ...given, encryption: { keys: [key] } });
      await runSecretive(server);
    }
    const all = await dump();
    expect(all.length).toBeGreaterThan(20);
    expect(markersIn(all)).toEqual([]);
    await expect(testServer(given)).rejects.toThrow(/which is missing/);

    const keys = new Keyring([key]);
    const target = join(folder(), "data");
    await moveStore({
      source: sealedPlace(new DatabasePlace({ url, schema, keys }), keys),
      target: sealedPlace(new FolderPlace(target), keys),
      ...{ now: () => new Date(), newId: () => "move-2" },
    });
    expect(markersIn(bytesUnder(target))).toEqual([]);
    expect(await shown(target, key)).toContain("marker of the file");
    const bucket = new BucketPlace({ name: "memory", storage: memoryDriver() as StorageLike, dead: 0 });
    await moveStore({
      source: sealedPlace(new FolderPlace(target), keys),
      target: sealedPlace(bucket, keys),
      ...{ now: () => new Date(), newId: () => "move-3" },
    });
  });

  it("that another instance encrypts with a key that is missing here fails reads by name, and no job", async () => {
    const { open } = await database();
    const old = await opened(open, "");
    await old.table("Job").insert(makeJob("before"));
    const current = await opened(open, "", newKey());
    await current.table("Job").insert(makeJob("a"));
    await expect(old.table("Job").get("a")).rejects.toThrow(
      /Job "a" is encrypted with the key .*, which is missing/,
    );
    await expect(old.table("Job").list()).rejects.toMatchObject({ type: "storage_error" });
    await expect(old.table("Job").change("a", (job) => ({ ...job, status: "failed" }))).rejects.toThrow(
      /is missing/,
    );
    await current.table("Job").change("before", (job) => ({ ...job, name: "sealed now" }));
    await delay(0);
    await expect(old.table("Job").change("before", (job) => ({ ...job, status: "failed" }))).rejects.toThrow(
      /missing/,
    );
    expect(await current.table("Job").get("before")).toMatchObject({ name: "sealed now" });
    expect(await current.table("Job").get("a")).toEqual(makeJob("a"));
  });
});

// @long
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { sumsOf } from "../../src/core/store/content.ts";
import { makeCase, makeEntry, makeJob } from "../../src/core/store/contract/fixtures.ts";
import { sendSnapshot } from "../../src/core/store/engine/snapshot.ts";
import { FolderPlace } from "../../src/core/store/json/folder-place.ts";
import { openJsonStoreWith } from "../../src/core/store/json/json-store.ts";
import { backupStore, exportStore, repairStore, saveBackup } from "../../src/core/store/maintenance.ts";
import { type MoveOptions, moveStore, type Place, undoMove } from "../../src/core/store/move.ts";
import { DatabasePlace } from "../../src/core/store/postgres/database-place.ts";
import type { Store, TableSpec } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { postgres } from "../../src/postgres.ts";
import { type Cluster, sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { shareOf } from "../_share.ts";
import { SimRandom } from "./sim-random.ts";

const { describe } = requirement("postgres");

const log = { info() {}, warn() {}, error() {} };
/** A table that only some plugin knows. */
const NOTES: TableSpec = {
  name: "Note",
  version: 3,
  entity: true,
  index: (note) => ({ kind: (note as unknown as { kind: string }).kind }),
  facets: ["kind"],
  sorted: [],
};
const TABLES = [...CORE_TABLES, NOTES];

let root: string;
let dataDir: string;
let cluster: Cluster;
/** Made once: new tables cost much more than empty ones. */
let schema: string | undefined;
let opened: Store[];
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "store-move-"));
  dataDir = join(root, "data");
  cluster = await sharedCluster();
  schema ??= cluster.newSchema();
  opened = [];
});
afterEach(async () => {
  await Promise.all(opened.map((store) => store.close()));
  await emptyDatabase();
  rmSync(root, { recursive: true, force: true });
});

async function emptyDatabase(): Promise<void> {
  const tables = await cluster.query<{ name: string }>(
    `select quote_ident(tablename) as name from pg_tables where schemaname = '${schema}' and tablename not in ('_migration', '_table', '_count')`,
  );
  if (tables.length === 0) return;
  await cluster.query(
    `drop trigger if exists closed_insert on ${schema}._writer; drop trigger if exists closed_update on ${schema}._writer;
     ${tables.map(({ name }) => `delete from ${schema}.${name};`).join("\n")}`,
  );
}

async function kept(store: Promise<Store>): Promise<Store> {
  opened.push(await store);
  return store;
}
const openFolder = (folder = dataDir, tables: readonly TableSpec[] = TABLES) =>
  kept(openJsonStoreWith({ tables, dataDir: folder, log }));
const openDatabase = (tables: readonly TableSpec[] = TABLES) =>
  kept(postgres({ url: cluster.url, schema: schema!, connections: 2 })({ tables, dataDir: "", log }));

const folder = (path = dataDir) => new FolderPlace(path);
const database = () => new DatabasePlace({ url: cluster.url, schema });

let moves = 0;
const ends = (source: Place, target: Place): MoveOptions => ({
  ...{ source, target },
  newId: () => `move-${++moves}`,
  now: () => new Date("2026-03-01T09:30:00Z"),
});

/** Ids, texts and logs of every kind. */
async function fill(store: Store): Promise<void> {
  const strange = ["a", "é\u0301", "\ud800", "\udfff", "\u0000", '"', "\n", '},"d":', "𝒳", "\ue000", "-"];
  for (const [at, id] of strange.entries()) {
    await store.transaction(async (tx) => {
      await tx.insert(
        "Job",
        makeJob(id, { payload: strange.slice(0, at), run_count: at, status: "stopped" }),
      );
      await tx.insert("Case", makeCase(`c${id}`, id));
      for (let entry = 0; entry < at; entry++) await tx.append("Run", id, makeEntry(`${id}${entry}`));
    });
  }
  await store.table("Job").change("a", (job) => ({ ...job, name: "changed", updated_at: job.created_at }));
  await store.table("Job").remove("-");
  await store.transaction((tx) => tx.clear("Run", "-"));
  await store.table("Note" as never).insert({ id: "n1", kind: "red" } as never);
}

async function sums(place: Place) {
  await place.lock();
  try {
    return [...(await place.read(sumsOf))]
      .filter(({ rows }) => rows > 0)
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  } finally {
    await place.release();
  }
}

/** The files of an export, by name. */
async function exported(path: string): Promise<Record<string, string>> {
  const to = mkdtempSync(join(root, "exported-"));
  await exportStore(path, to);
  return Object.fromEntries(
    readdirSync(to)
      .filter((name) => readFileSync(join(to, name), "utf8").length > 5)
      .map((name) => [name, readFileSync(join(to, name), "utf8")]),
  );
}

async function filledFolder(): Promise<void> {
  const store = await openFolder();
  await fill(store);
  await store.close();
}

describe("a move", () => {
  it("takes everything from a folder to a database and back, byte for byte", async () => {
    await filledFolder();
    const before = await sums(folder());
    const files = await exported(dataDir);

    const moved = await moveStore(ends(folder(), database()));
    const there = await sums(database());
    const back = join(root, "back");
    await moveStore(ends(database(), folder(back)));

    expect(moved.was).toBe("new");
    expect(before.map(({ name, rows }) => [name, rows])).toEqual([
      ["Case", 11],
      ["Job", 10],
      ["Note", 1],
      ["Run", 45],
    ]);
    expect(there).toEqual(before);
    expect(await sums(folder(back))).toEqual(before);
    expect(await exported(back)).toEqual(files);
  });

  it.each(["stopped", "killed"])(
    "takes a folder of version 0.1.0, %s, with what it has held",
    async (kind) => {
      cpSync(new URL(`data-0.1.0/${kind}`, import.meta.url), dataDir, { recursive: true });
      const before = await sums(folder());
      const files = await exported(dataDir);

      await moveStore(ends(folder(), database()));
      const jobs = await (await openDatabase()).table("Job").ids();
      await moveStore(ends(database(), folder(join(root, "back"))));

      expect(await sums(folder(join(root, "back")))).toEqual(before);
      expect(await exported(join(root, "back"))).toEqual(files);
      expect(jobs).toHaveLength(before.find(({ name }) => name === "Job")!.rows);
    },
  );

  it.each(shareOf([1, 2, 3, 4, 5, 6, 7, 8], 4))("takes random data there and back, seed %i", async (seed) => {
    const random = new SimRandom(seed);
    const store = await kept(
      openJsonStoreWith({ tables: CORE_TABLES, dataDir, log, journalBytes: 4000 + random.below(20_000) }),
    );
    const text = () =>
      Array.from({ length: random.below(30) }, () => String.fromCharCode(random.below(0x10000))).join("");
    const id = () => `${'\ud800\0\n"é𝒳'[random.below(6)]}${random.below(40)}`;
    for (let step = 0; step < 150; step++) {
      const [job, payload] = [id(), { [text()]: [text(), random.below(1000) / 7, null] }];
      await store.transaction(async (tx) => {
        const found = await tx.get("Job", job);
        if (found === undefined) await tx.insert("Job", makeJob(job, { payload, name: text() }));
        else if (random.below(4) > 0) await tx.change("Job", job, (one) => ({ ...one, payload }));
        else await tx.remove("Job", job);
        if (random.below(10) === 0) await tx.clear("Run", job);
        for (let entry = random.below(4); entry > 0; entry--) await tx.append("Run", job, makeEntry(text()));
      });
    }
    await store.close();
    const before = await sums(folder());
    const files = await exported(dataDir);

    await moveStore(ends(folder(), database()));
    expect(await sums(database())).toEqual(before);
    await moveStore(ends(database(), folder(join(root, "back"))));

    expect(await exported(join(root, "back"))).toEqual(files);
  });

  it("leaves a database that works: found by index and text, fenced, also in tables that only the service knows", async () => {
    await filledFolder();
    await moveStore(ends(folder(), database()));

    const store = await openDatabase();

    const all = await store.table("Job").list({ where: { status: "stopped" }, sort: "id", limit: 2 });
    expect(all).toMatchObject({ total: 10, items: [{ id: "\n" }, { id: '"' }] });
    expect(await store.table("Job").ids({ search: "Changed" })).toEqual(["a"]);
    expect(await store.table("Note" as never).countBy("kind")).toEqual({ red: 1 });
    const write = (epoch: number) =>
      store.transaction((tx) => tx.append("Run", "𝒳", makeEntry("more")), { fence: { job: "𝒳", epoch } });
    await expect(write(7)).rejects.toThrow("no longer its current run");
    expect(await write(8)).toBe(9);
  });

  it("closes the source: no start, command or other move uses it, and each says where the data is", async () => {
    await filledFolder();
    await moveStore(ends(folder(), database()));

    const moved = `The data of this store was moved to postgres://svc@${cluster.folder}/postgres, schema ${schema}, on 2026-03-01 09:30:00 UTC`;
    await expect(openFolder()).rejects.toThrow(moved);
    await expect(repairStore(dataDir)).rejects.toThrow(moved);
    await expect(backupStore(dataDir, join(root, "backup"))).rejects.toThrow(moved);
    await expect(moveStore(ends(folder(), folder(join(root, "third"))))).rejects.toThrow(moved);

    await moveStore(ends(database(), folder(join(root, "back"))));
    await expect(openDatabase()).rejects.toThrow(/^The data of this store was moved to folder .*back/);
  });

  it("closes a database also for those that have it open", async () => {
    const store = await openDatabase();
    await store.table("Job").insert(makeJob("a"));
    await moveStore(ends(database(), folder()));

    await expect(store.table("Job").insert(makeJob("b"))).rejects.toThrow(/was moved to folder/);
    await expect(store.log("Run").append("a", makeEntry("late"))).rejects.toThrow(/was moved to folder/);

    expect(await (await openFolder()).table("Job").ids()).toEqual(["a"]);
  });

  it("refuses a service that is running, a source without data and a target with some", async () => {
    const running = await openFolder();
    await fill(running);
    await expect(moveStore(ends(folder(), database()))).rejects.toThrow("is in use by process");
    await running.close();
    await expect(moveStore(ends(database(), folder(join(root, "new"))))).rejects.toThrow("has no data");

    const store = await openDatabase();
    await store.table("Job").insert(makeJob("other"));
    await expect(moveStore(ends(folder(), database()))).rejects.toThrow("is not empty");
    const instance = { id: "i1", started_at: "", host: "host-7", agents: [], running: 0, places: 1 };
    await store.table("Instance").insert({ ...instance, seen_at: new Date().toISOString() });
    await expect(moveStore(ends(database(), folder(join(root, "new"))))).rejects.toThrow(
      "is in use by an instance on host-7",
    );

    // Nothing has changed: both can be opened.
    await (await openFolder()).close();
    await store.table("Job").insert(makeJob("more"));
  });

  it("keeps the keys and other files of a service in the target folder", async () => {
    await filledFolder();
    await moveStore(ends(folder(), database()));
    const back = join(root, "back");
    mkdirSync(back);
    writeFileSync(join(back, "api-key"), "secret");

    await moveStore(ends(database(), folder(back)));

    expect(readFileSync(join(back, "api-key"), "utf8")).toBe("secret");
    await openFolder(back);
  });

  it("changes nothing where the target refuses something", async () => {
    const store = await openFolder();
    await store.table("Job").insert(makeJob("x".repeat(3000)));
    await store.close();

    await expect(moveStore(ends(folder(), database()))).rejects.toThrow(
      "An id of 3000 characters cannot be stored",
    );

    await openFolder();
    expect(await sums(database())).toEqual([]);
  });
});

/** Places of a process that dies before its call number `at`: from then on nothing happens any longer. */
function dyingAt(at: number): { of: (place: Place) => Place; isDead: () => boolean } {
  let left = at;
  const of = (place: Place): Place =>
    new Proxy(place, {
      get(_, name) {
        const member = Reflect.get(place, name, place) as unknown;
        if (typeof member !== "function") return member;
        return async (...args: unknown[]) => {
          if (name !== "release" && left-- <= 0) throw new Error("killed");
          return member.apply(place, args) as unknown;
        };
      },
    });
  return { of, isDead: () => left < 0 };
}

describe("a move that is killed", () => {
  const ways: Record<string, () => [Place, Place]> = {
    "from a folder": () => [folder(), database()],
    "from a database": () => [database(), folder()],
  };

  it.each(Object.keys(ways))(
    "%s can be opened at one end at most, and is finished by the next call",
    async (way) => {
      for (let at = 0; ; at++) {
        const [source, target] = ways[way]!();
        const open = () =>
          way === "from a folder" ? [openFolder, openDatabase] : [openDatabase, openFolder];
        const first = await open()[0]!();
        await first.table("Job").insert(makeJob("a"));
        await first.log("Run").append("a", makeEntry("one"));
        await first.close();
        const dying = dyingAt(at);

        const result = await moveStore(ends(dying.of(source), dying.of(target))).catch(() => "killed");
        if (!dying.isDead()) {
          expect(at).toBeGreaterThan(5);
          expect(result).toMatchObject({ was: "new" });
          return;
        }
        const places = [...ways[way]!()];
        for (const place of places) await place.lock();
        const kinds = await Promise.all(places.map((place) => place.state()));
        for (const place of places) await place.release();
        expect(kinds.filter(({ kind }) => kind === "open").length).toBeLessThanOrEqual(1);

        await moveStore(ends(...ways[way]!()));

        await expect(open()[0]!()).rejects.toThrow("was moved to");
        const moved = await open()[1]!();
        expect(await moved.table("Job").ids()).toEqual(["a"]);
        expect(await moved.log("Run").last("a")).toBe(1);
        await moved.close();
        rmSync(dataDir, { recursive: true });
        await emptyDatabase();
      }
    },
  );

  it("can be undone from each state, and the copy is closed then", async () => {
    for (let at = 0; ; at++) {
      await filledFolder();
      const dying = dyingAt(at);
      await moveStore(ends(dying.of(folder()), dying.of(database()))).catch(() => {});
      const state = await stateOf(folder());

      if (state.kind === "closed") await undoMove({ ...ends(folder(), database()), force: false });

      const store = await openFolder();
      expect((await store.table("Job").list({ limit: 1 })).total).toBe(10);
      await store.close();
      if ((await stateOf(database())).kind !== "empty")
        await expect(openDatabase()).rejects.toThrow(/^The data of this store is in folder/);
      rmSync(dataDir, { recursive: true });
      await emptyDatabase();
      if (!dying.isDead()) return;
    }
  });
});

async function stateOf(place: Place) {
  await place.lock();
  try {
    return await place.state();
  } finally {
    await place.release();
  }
}

describe("undoing a move", () => {
  it("is refused where the target has changed since, unless it is forced", async () => {
    await filledFolder();
    await moveStore(ends(folder(), database()));
    const store = await openDatabase();
    await store.table("Job").insert(makeJob("new"));
    await store.close();

    await expect(undoMove({ ...ends(folder(), database()), force: false })).rejects.toThrow(
      /has changed since the move \(Job: 10 and 11\)/,
    );
    await undoMove({ ...ends(folder(), database()), force: true });

    expect(await (await openFolder()).table("Job").get("new")).toBeUndefined();
    await expect(openDatabase()).rejects.toThrow(/its move to here was undone/);
  });

  it("is refused where the data has been moved on from the target", async () => {
    await filledFolder();
    await moveStore(ends(folder(), database()));
    await moveStore(ends(database(), folder(join(root, "third"))));

    await expect(undoMove({ ...ends(folder(), database()), force: false })).rejects.toThrow(
      /was moved to folder .*third/,
    );
  });
});

describe("a backup of a database", () => {
  it("has one moment of it, in whole transactions, while it is written to", async () => {
    const store = await openDatabase();
    let isOver = false;
    let acknowledged = 0;
    const writing = (async () => {
      for (let at = 0; !isOver; at++) {
        await store.transaction(async (tx) => {
          await tx.insert("Job", makeJob(`j${at}`));
          await tx.insert("Case", makeCase(`c${at}`, `j${at}`));
        });
        acknowledged = at;
      }
    })();
    await expect.poll(() => acknowledged).toBeGreaterThan(20);

    const before = acknowledged;
    const snapshot = await store.snapshot!();
    const after = acknowledged;
    await expect.poll(() => acknowledged).toBeGreaterThan(after + 20);
    const backup = join(root, "backup");
    await saveBackup(sendSnapshot(snapshot), backup);
    isOver = true;
    await writing;

    const copy = await openFolder(backup);
    const jobs = await copy.table("Job").ids();
    expect((await copy.table("Case").ids()).map((id) => `j${id.slice(1)}`).sort()).toEqual(jobs.sort());
    expect(jobs.length).toBeGreaterThan(before);
    // They are counted from 0, and one more may be under way.
    expect(jobs.length).toBeLessThanOrEqual(after + 2);
  });

  it("that is cut short is recognized, wherever that is", async () => {
    const store = await openDatabase();
    await fill(store);
    const chunks: Uint8Array[] = [];
    for await (const chunk of sendSnapshot(await store.snapshot!())) chunks.push(chunk);
    const all = Buffer.concat(chunks);
    const lines = [...all.keys()].filter((at) => all[at] === 10).map((at) => at + 1);

    for (const [number, end] of [...lines.slice(0, -1), all.length - 20].entries()) {
      async function* cut() {
        yield all.subarray(0, end);
      }
      await expect(saveBackup(cut(), join(root, `cut-${number}`))).rejects.toThrow("was interrupted");
    }
    const whole = join(root, "whole");
    async function* bytes() {
      for (const byte of all) yield Uint8Array.of(byte);
    }
    await saveBackup(bytes(), whole);
    expect(await sums(folder(whole))).toEqual(await sums(database()));
  });
});

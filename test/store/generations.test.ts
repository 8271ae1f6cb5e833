import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createStorage } from "unstorage";
import memory from "unstorage/drivers/memory";
import { describe, expect, it, onTestFinished } from "vitest";
import { startTimer } from "../../src/core/base/timer.ts";
import type { UnstorageStorage } from "../../src/core/storage/open-storage.ts";
import { Backups } from "../../src/core/store/backup/backups.ts";
import { ROOT, readGeneration, writeGeneration } from "../../src/core/store/backup/generation.ts";
import {
  expired,
  findGeneration,
  listGenerations,
  pruneGenerations,
} from "../../src/core/store/backup/generations.ts";
import { makeJob } from "../../src/core/store/contract/fixtures.ts";
import { openJsonStore } from "../../src/core/store/json/json-store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const START = new Date("2026-03-01T00:00:00Z");
const later = (milliseconds: number) => new Date(START.getTime() + milliseconds);
const log = { info() {}, warn() {}, error() {} };

const newStorage = () => createStorage({ driver: memory() }) as UnstorageStorage;

async function* chunks(...texts: string[]): AsyncGenerator<Uint8Array, void> {
  for (const text of texts) yield Buffer.from(text);
}

async function textOf(sent: AsyncIterable<Uint8Array>): Promise<string> {
  const all: Uint8Array[] = [];
  for await (const chunk of sent) all.push(chunk);
  return Buffer.concat(all).toString();
}

const write = (storage: UnstorageStorage, text: string, now = START) =>
  writeGeneration(storage, () => chunks(text.slice(0, 7), text.slice(7)), {
    now,
    version: "1",
    partBytes: 1,
  });

const partKeys = async (storage: UnstorageStorage) =>
  (await storage.getKeys(ROOT)).filter((key) => key.includes(":part-")).sort();

describe("a backup in a storage", () => {
  it("is read as it was sent, from as many parts as it needs", async () => {
    const storage = newStorage();
    // Noise, so that it does not become small.
    const text = Array.from({ length: 200_000 }, (_, at) => ((at * 7919) % 9973).toString(36)).join("\n");

    const made = await write(storage, text);

    expect(made.parts.length).toBeGreaterThan(1);
    expect(made.lines).toBe(199_999);
    expect((await textOf(readGeneration(storage, made))) === text).toBe(true);
  });

  it("is none before its last item is written, wherever the sender or the storage fails", async () => {
    const full = newStorage();
    await write(full, "a\nb\nc\n");
    const requests = (await full.getKeys(ROOT)).length;
    for (let failing = 1; failing <= requests; failing++) {
      const storage = newStorage();
      let calls = 0;
      const broken: UnstorageStorage = {
        ...storage,
        setItemRaw: (key, value) => {
          if (++calls === failing) return Promise.reject(new Error("the bucket is full"));
          return storage.setItemRaw(key, value);
        },
      };

      await expect(write(broken, "a\nb\nc\n")).rejects.toThrow("the bucket is full");
      expect(await listGenerations(storage)).toEqual([]);
    }
    const storage = newStorage();
    const cut = (async function* () {
      yield Buffer.from("a\n");
      throw new Error("the service closes");
    })();
    await expect(writeGeneration(storage, () => cut, { now: START, version: "1" })).rejects.toThrow("closes");
    expect(await listGenerations(storage)).toEqual([]);
  });

  it("is refused with the place where it is damaged", async () => {
    const storage = newStorage();
    const made = await write(storage, "some lines\n".repeat(3));
    const [first] = await partKeys(storage);
    const intact = (await storage.getItemRaw(first!)) as Uint8Array;

    await storage.setItemRaw(first!, Buffer.from(intact).fill(0, 3));
    await expect(textOf(readGeneration(storage, made))).rejects.toThrow("the checksum of part 1 of");
    await storage.removeItem(first!);
    await expect(textOf(readGeneration(storage, made))).rejects.toThrow("part 1 of");
    await storage.setItemRaw(first!, intact);
    await expect(textOf(readGeneration(storage, { ...made, sha256: "0" }))).rejects.toThrow(
      "the checksum of its content does not match",
    );
  });

  it("is found by a time: the newest of then or before", async () => {
    const storage = newStorage();
    expect(await listGenerations(storage)).toEqual([]);
    await expect(findGeneration(storage)).rejects.toThrow("There is no complete backup");
    for (const hours of [0, 2, 1]) await write(storage, `${hours}`, later(hours * HOUR));

    const textAt = async (at?: Date) => textOf(readGeneration(storage, await findGeneration(storage, at)));

    expect(await textAt()).toBe("2");
    expect(await textAt(later(1.5 * HOUR))).toBe("1");
    expect(await textAt(later(0))).toBe("0");
    await expect(findGeneration(storage, later(-1))).rejects.toThrow(
      "There is no backup of 2026-02-28T23:59:59.999Z or before",
    );
  });
});

describe("retention of backups", () => {
  const made = (at: number) => ({ id: `${at}`, made_at: later(at).toISOString() });
  const kept = (ages: readonly number[], keep: number, now: number) => {
    const all = ages.map(made);
    const gone = new Set(expired(all, { now: later(now), keep }).map(({ id }) => id));
    return all.filter(({ id }) => !gone.has(id)).map(({ id }) => Number(id) / HOUR);
  };
  const hourly = Array.from({ length: 24 * 10 }, (_, at) => at * HOUR);

  it("keeps all of the last day, the newest of each day before it, and none beyond its time", () => {
    const now = 24 * 10 * HOUR - 1;

    const left = kept(hourly, 4 * DAY, now);

    // The last 24 hours, then the last hours of three days.
    expect(left.filter((hours) => hours >= 24 * 9)).toHaveLength(24);
    expect(left.filter((hours) => hours < 24 * 9)).toEqual([24 * 7 - 1, 24 * 8 - 1, 24 * 9 - 1]);
  });

  it("keeps the newest five, whatever the clock says", () => {
    expect(kept(hourly, DAY, 10_000 * DAY)).toEqual([235, 236, 237, 238, 239]);
    expect(kept([0], DAY, 10_000 * DAY)).toEqual([0]);
  });

  it("removes what an interrupted backup has left once it is a day old", async () => {
    const storage = newStorage();
    await write(storage, "whole", later(0));
    const young = `${ROOT}:20260302T120000000Z-aaaaaaaa:part-00001`;
    const old = `${ROOT}:20260301T000000000Z-bbbbbbbb:part-00001`;
    for (const key of [young, old]) await storage.setItemRaw(key, Buffer.from("half"));

    expect(await pruneGenerations(storage, { now: later(1.75 * DAY), keep: 7 * DAY })).toBe(1);

    const keys = await storage.getKeys(ROOT);
    expect([keys.includes(young), keys.includes(old)]).toEqual([true, false]);
    expect(await listGenerations(storage)).toHaveLength(1);
  });
});

describe("backups of a service", () => {
  const openStore = async () => {
    const dataDir = mkdtempSync(join(tmpdir(), "svc-generations-"));
    onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
    return openJsonStore({ tables: CORE_TABLES, dataDir, log });
  };
  const parts = { every: HOUR, keep: 7 * DAY, version: "1", log };

  it("are made when the last one is old enough, also after a restart", async () => {
    const storage = newStorage();
    const store = await openStore();
    let now = START;
    const clock = () => now;
    const first = new Backups({ ...parts, startTimer, storage, store, clock });
    first.start();
    await expect.poll(() => first.state().last?.made_at).toBe(START.toISOString());
    await first.close();

    now = later(HOUR / 2);
    const second = new Backups({ ...parts, startTimer, storage, store, clock });
    second.start();
    await expect.poll(() => second.state().lag).toBe(1800);
    await second.close();
    expect(await listGenerations(storage)).toHaveLength(1);

    now = later(HOUR);
    const third = new Backups({ ...parts, startTimer, storage, store, clock });
    third.start();
    await expect.poll(() => third.state().last?.made_at).toBe(now.toISOString());
    await third.close();
    expect(await listGenerations(storage)).toHaveLength(2);
    await store.close();
  });

  it("say why they fail, and are tried again until they succeed", async () => {
    const storage = newStorage();
    const store = await openStore();
    let isBroken = true;
    const broken: UnstorageStorage = {
      ...storage,
      getKeys: (base) => (isBroken ? Promise.reject(new Error("the bucket is gone")) : storage.getKeys(base)),
    };
    const backups = new Backups({
      ...parts,
      startTimer,
      storage: broken,
      store,
      clock: () => new Date(),
      every: 20,
    });
    backups.start();

    await expect.poll(() => backups.state()).toMatchObject({ last: null, error: "the bucket is gone" });
    isBroken = false;

    await expect.poll(() => backups.state()).toMatchObject({ error: null, last: expect.any(Object) });
    await backups.close();
    await store.close();
  });

  it("do not hold up the stop of a service whose storage hangs", async () => {
    const store = await openStore();
    let writing = false;
    const hanging: UnstorageStorage = {
      ...newStorage(),
      setItemRaw: () => {
        writing = true;
        return new Promise(() => {});
      },
    };
    const backups = new Backups({ ...parts, startTimer, storage: hanging, store, clock: () => START });
    backups.start();
    await expect.poll(() => writing).toBe(true);

    await backups.close();

    expect(backups.state().last).toBeNull();
    await store.close();
  });

  it("are not made by an instance that cannot write", async () => {
    const storage = newStorage();
    const store = await openStore();
    await store.table("Job").insert(makeJob("a"));
    const standby = new Proxy(store, {
      get: (target, name) =>
        name === "health" ? () => ({ writable: false }) : Reflect.get(target, name).bind?.(target),
    });
    let listed = 0;
    const watched: UnstorageStorage = {
      ...storage,
      getKeys: async (base) => {
        listed += 1;
        return storage.getKeys(base);
      },
    };
    const backups = new Backups({
      startTimer,
      ...parts,
      storage: watched,
      store: standby,
      clock: () => START,
      every: 20,
    });
    backups.start();

    await expect.poll(() => listed).toBeGreaterThan(2);
    await backups.close();

    expect(await storage.getKeys(ROOT)).toEqual([]);
    await store.close();
  });
});

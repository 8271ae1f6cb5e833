// @long
// @losses
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import type { StorageLike } from "../../src/core/storage/open-storage.ts";
import { openBucketStore } from "../../src/core/store/bucket/bucket-store.ts";
import { openObjects } from "../../src/core/store/bucket/objects.ts";
import type { Objects } from "../../src/core/store/bucket/sealed.ts";
import { makeJob } from "../../src/core/store/contract/fixtures.ts";
import type { Store } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { shareOf } from "../_share.ts";
import { slotDriver } from "./slot-driver.ts";

type Data = Map<string, Uint8Array>;

/** Writes of each of the two: enough for several bases, and for what these replace. */
const WRITES = 9;

interface Death {
  /** Whose process dies: of the first instance, or of the one that takes over. */
  readonly who: 0 | 1;
  /** Before or after this request, counted from 0, takes effect; it gets no response. */
  readonly request: number;
  readonly isDone: boolean;
}

/** The objects of a process that dies at a request: nothing happens from then on. */
class Process {
  requests = 0;
  #end: () => void = () => {};
  readonly ended = new Promise<void>((resolve) => {
    this.#end = resolve;
  });

  of(objects: Objects, death: Pick<Death, "request" | "isDone"> | undefined): Objects {
    const mortal =
      <A extends unknown[], R>(call: (...args: A) => Promise<R>) =>
      async (...args: A): Promise<R> => {
        const number = this.requests++;
        if (death === undefined || number < death.request) return call(...args);
        if (number === death.request && death.isDone) await call(...args);
        this.#end();
        return new Promise<R>(() => {});
      };
    return {
      get: mortal(objects.get),
      put: mortal(objects.put),
      create: objects.create && mortal(objects.create),
      list: mortal(objects.list),
      remove: mortal(objects.remove),
    };
  }
}

const DRIVERS = {
  "atomic creation": (data: Data): StorageLike => slotDriver(data),
  "a marker": (data: Data): StorageLike => {
    const { createItemRaw: _, ...driver } = slotDriver(data);
    return driver;
  },
};

/** Two lives that overlap: the second one takes over while the first one writes. Resolves with the number of requests of each. */
async function live(root: string, driver: StorageLike, death: Death | undefined): Promise<number[]> {
  const objects = openObjects(driver);
  const log = { info() {}, warn() {}, error() {} };
  const open = (name: string, mine: Objects): Promise<Store> => {
    const dataDir = mkdtempSync(join(root, name));
    return openBucketStore({ tables: CORE_TABLES, dataDir, log, objects: mine, groupsPerBase: 3 });
  };
  const acknowledged: string[] = [];
  const processes = [new Process(), new Process()];
  let halfway: () => void = () => {};
  const half = new Promise<void>((resolve) => {
    halfway = resolve;
  });
  const run = async (who: 0 | 1): Promise<void> => {
    const store = await open(`${who}-`, processes[who]!.of(objects, death?.who === who ? death : undefined));
    try {
      for (let write = 0; write < WRITES; write++) {
        await store.table("Job").insert(makeJob(`${who}-${write}`));
        acknowledged.push(`${who}-${write}`);
        if (write === WRITES / 2 - 0.5) halfway();
      }
    } catch {
      // The first one is deposed.
      expect(who).toBe(0);
    }
    halfway();
    if (who === 1) await store.close();
  };
  const first = Promise.race([run(0), processes[0]!.ended]);
  await Promise.race([half, processes[0]!.ended]);
  await Promise.all([first, Promise.race([run(1), processes[1]!.ended])]);
  const requests = processes.map((process) => process.requests);

  for (let round = 0; round < 2; round++) {
    const next = await open("next-", objects);
    const found = new Set(await next.table("Job").ids());
    expect(acknowledged.filter((id) => !found.has(id))).toEqual([]);
    // What was found once stays, also what nobody acknowledged.
    acknowledged.splice(0, acknowledged.length, ...found);
    await next.table("Job").insert(makeJob(`next-${round}`));
    acknowledged.push(`next-${round}`);
    await next.close();
  }
  return requests;
}

it.each(Object.entries(DRIVERS))(
  "with %s, a process that dies at any request loses nothing that was acknowledged",
  async (_, driverOf) => {
    const root = mkdtempSync(join(tmpdir(), "bucket-killed-"));
    onTestFinished(() => rmSync(root, { recursive: true, force: true }));
    const whole = await live(root, driverOf(new Map()), undefined);
    const deaths = ([0, 1] as const).flatMap((who) => {
      expect(whole[who]).toBeGreaterThan(15);
      const requests = Array.from({ length: whole[who]! }, (_, request) => request);
      return requests.flatMap((request) => [true, false].map((isDone) => ({ who, request, isDone })));
    });
    for (const death of shareOf(deaths, 15)) await live(root, driverOf(new Map()), death);
  },
  300_000,
);

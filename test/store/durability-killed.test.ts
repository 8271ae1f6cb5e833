// @long
// @losses
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { openBucketStore } from "../../src/core/store/bucket/bucket-store.ts";
import { openObjects } from "../../src/core/store/bucket/objects.ts";
import type { Objects } from "../../src/core/store/bucket/sealed.ts";
import { makeJob } from "../../src/core/store/contract/fixtures.ts";
import { openJsonStoreWith } from "../../src/core/store/json/json-store.ts";
import type { Store } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { shareOf } from "../_share.ts";
import { type DeathAt, Mortal } from "./mortal.ts";
import { slotDriver } from "./slot-driver.ts";

const SILENT = { info() {}, warn() {}, error() {} };

/** One disk after another, as dead processes leave them. */
class Disks {
  readonly #root: string;

  constructor(root: string) {
    this.#root = root;
  }

  blank(): string {
    return mkdtempSync(join(this.#root, "disk-"));
  }

  copy(dataDir: string): string {
    const copy = this.blank();
    cpSync(dataDir, copy, { recursive: true, filter: (path) => !/lock\.\d+\./.test(path) });
    return copy;
  }
}

interface Life {
  readonly dataDir: string;
  readonly name: string;
  readonly writes: number;
}

interface Lived {
  /** In their order. */
  readonly found: readonly string[];
  readonly acknowledged: readonly string[];
  readonly aside: readonly string[];
}

/** Opens the store, writes, and closes it, unless the process ends before. */
async function live(mortal: Mortal, { dataDir, name, writes }: Life): Promise<Lived> {
  const { objects, io, timers } = mortal;
  const acknowledged: string[] = [];
  let found: string[] = [];
  let aside: readonly string[] = [];
  const run = async () => {
    const store = await openBucketStore({
      ...{ tables: CORE_TABLES, dataDir, log: SILENT, durability: "disk", linger: 0 },
      ...{ objects, io, timers, groupsPerBase: 2, journalBytes: 3000, memory: 4000 },
    });
    found = await idsOf(store);
    aside = store.health().shipping!.set_aside;
    for (let write = 0; write < writes; write++) {
      await store.table("Job").insert(makeJob(`${name}${write}`));
      acknowledged.push(`${name}${write}`);
      // Sometimes several groups share an object.
      if (write % 3 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    await store.close();
  };
  const running = run().catch((error: unknown) => {
    // The disk of a process that has ended fails.
    if (!mortal.isDead) throw error;
  });
  await Promise.race([running, mortal.ended]);
  return { found: [...found], acknowledged: [...acknowledged], aside };
}

const idsOf = (store: Store) => store.table("Job").ids({ sort: "id" });

async function setAside(dataDir: string, folders: readonly string[]): Promise<string[]> {
  const ids: string[] = [];
  for (const folder of folders) {
    const store = await openJsonStoreWith({
      tables: CORE_TABLES,
      dataDir: join(dataDir, folder),
      log: SILENT,
    });
    ids.push(...(await idsOf(store)));
    await store.close();
  }
  return ids;
}

interface Deaths {
  readonly first?: DeathAt;
  readonly second?: DeathAt;
}

/**
 * A process ends; if `isTaken`, another one on a blank disk has the store for a while; one starts again on the first disk, and
 * ends too; then one lives. Resolves with the steps of those that end.
 */
async function story(bucket: Objects, disks: Disks, { first, second }: Deaths, isTaken: boolean) {
  const one = new Mortal(bucket, first);
  const disk = disks.blank();
  const a = await live(one, { dataDir: disk, name: "a", writes: 7 });
  const b = isTaken
    ? await live(new Mortal(bucket), { dataDir: disks.blank(), name: "b", writes: 3 })
    : undefined;
  if (b !== undefined)
    expect(a.acknowledged.slice(0, b.found.length)).toEqual(b.found.slice(0, a.acknowledged.length));
  const two = new Mortal(bucket, second);
  const again = disks.copy(disk);
  const c = await live(two, { dataDir: again, name: "c", writes: 4 });
  const last = disks.copy(again);
  const d = await live(new Mortal(bucket), { dataDir: last, name: "d", writes: 1 });
  const blank = await live(new Mortal(bucket), { dataDir: disks.blank(), name: "e", writes: 0 });

  expect(blank.found).toEqual([...d.found, "d0"]);
  // Without another owner nothing is lost that was acknowledged, or is set aside.
  const kept = [...(b?.found ?? a.acknowledged), ...(b?.acknowledged ?? []), ...c.acknowledged];
  expect(kept.filter((id) => !d.found.includes(id))).toEqual([]);
  if (!isTaken) expect(d.aside).toEqual([]);
  // With one, what is not in the history is in a folder that the service names.
  const rest = await setAside(last, d.aside);
  expect(a.acknowledged.filter((id) => !d.found.includes(id) && !rest.includes(id))).toEqual([]);
  // The history of the other one has nothing of the first one besides what that one found.
  if (b !== undefined)
    expect(d.found.filter((id) => id.startsWith("a"))).toEqual(b.found.filter((id) => id.startsWith("a")));
  return [one.steps, two.steps] as const;
}

const DRIVERS = {
  "atomic creation": () => slotDriver(new Map()),
  "a marker": () => {
    const { createItemRaw: _, ...driver } = slotDriver(new Map());
    return driver;
  },
};

it.each(
  Object.entries(DRIVERS).flatMap(([name, driverOf]) =>
    [false, true].map((isTaken) => [name, isTaken, driverOf] as const),
  ),
)(
  "with %s, taken over in between: %s, a process that dies at any step loses nothing silently",
  async (_, isTaken, driverOf) => {
    const root = mkdtempSync(join(tmpdir(), "durability-killed-"));
    onTestFinished(() => rmSync(root, { recursive: true, force: true }));
    const disks = new Disks(root);
    const bucket = () => openObjects(driverOf());
    const [first] = await story(bucket(), disks, {}, isTaken);
    // One that ends where much is not shipped yet, so that the next one has more to do.
    const early: DeathAt = { step: Math.floor(first * 0.6), isDone: true };
    const [, second] = await story(bucket(), disks, { first: early }, isTaken);
    expect(Math.min(first, second)).toBeGreaterThan(30);
    const of = (count: number) =>
      Array.from({ length: count }, (_, step) => [true, false].map((isDone) => ({ step, isDone }))).flat();
    const deaths: Deaths[] = [
      ...of(first).map((at) => ({ first: at })),
      ...of(second).map((at) => ({ first: early, second: at })),
    ];
    for (const death of shareOf(deaths, 120)) {
      const trouble = await story(bucket(), disks, death, isTaken).catch((error: unknown) => error);
      if (trouble instanceof Error) throw new Error(JSON.stringify(death), { cause: trouble });
    }
  },
  600_000,
);

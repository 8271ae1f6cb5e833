import { makeCase, makeJob } from "../../src/core/store/contract/fixtures.ts";
import { sealStore } from "../../src/core/store/encryption/sealed-store.ts";
import { openJsonStoreWith } from "../../src/core/store/json/json-store.ts";
import type { Timers } from "../../src/core/store/json/timers.ts";
import type { Store } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { FOLDER, type SimDisk } from "./sim-disk.ts";
import type { SimRandom } from "./sim-random.ts";

/** All that one client has stored, as text: entity values and log entries. */
export interface Unit {
  readonly job: string | undefined;
  readonly cases: readonly (string | undefined)[];
  readonly log: readonly string[];
}

export const CASES = 3;
export const EMPTY: Unit = { job: undefined, cases: Array(CASES).fill(undefined), log: [] };

/** Reads what a client has stored. */
export async function readUnit(store: Store, client: number): Promise<Unit> {
  const [job, entries] = [
    await store.table("Job").get(`j${client}`),
    await store.log("Run").read(`j${client}`),
  ];
  const cases: (string | undefined)[] = [];
  for (let at = 0; at < CASES; at++) cases.push((await store.table("Case").get(`c${client}-${at}`))?.name);
  return { job: job?.name, cases, log: entries.map(({ entry }) => (entry as { message: string }).message) };
}

/** A write: what it makes of a unit, and how to ask the store for it. */
export interface Operation {
  readonly next: Unit;
  readonly run: (store: Store) => Promise<unknown>;
}

/** A random write on what a client has stored. */
export function pickOperation(
  random: SimRandom,
  unit: Unit,
  { client, value }: { client: number; value: string },
): Operation {
  const kind = random.below(10);
  const at = random.below(CASES);
  const cases = (name: string | undefined) => unit.cases.map((old, place) => (place === at ? name : old));
  const [jobId, caseId] = [`j${client}`, `c${client}-${at}`];
  const payload = random.chance(0.3) ? "p".repeat(random.below(3000)) : null;
  const job = makeJob(jobId, { name: value, payload });
  const item = makeCase(caseId, jobId, { name: value, description: payload ?? "" });
  const entry = { type: "mark" as const, mark: "note" as const, message: value, at: "" };

  if (unit.job === undefined) {
    return { next: { ...unit, job: value }, run: (store) => store.table("Job").insert(job) };
  }
  if (kind < 3) {
    return { next: { ...unit, job: value }, run: (store) => store.table("Job").change(jobId, () => job) };
  }
  if (kind < 5) {
    return {
      next: { ...unit, log: [...unit.log, value] },
      run: (store) => store.log("Run").append(jobId, entry),
    };
  }
  if (kind < 6 && unit.cases[at] !== undefined) {
    return { next: { ...unit, cases: cases(undefined) }, run: (store) => store.table("Case").remove(caseId) };
  }
  if (kind < 9) {
    const next = { job: value, cases: cases(value), log: [...unit.log, value] };
    const run = (store: Store) =>
      store.transaction(async (tx) => {
        await tx.change("Job", jobId, () => job);
        if (unit.cases[at] === undefined) await tx.insert("Case", item);
        else await tx.change("Case", caseId, () => item);
        await tx.append("Run", jobId, entry);
      });
    return { next, run };
  }
  const run = (store: Store) =>
    store.transaction(async (tx) => {
      for (let place = 0; place < CASES; place++) await tx.remove("Case", `c${client}-${place}`);
      await tx.remove("Job", jobId);
      await tx.clear("Run", jobId);
    });
  return { next: EMPTY, run };
}

/** Opens the store on a simulated disk, with files so small that they are changed and compacted all the time. */
export async function openOn(
  disk: SimDisk,
  random: SimRandom,
  warn: (message: string) => void = () => {},
): Promise<Store> {
  const files = {
    io: disk.io(),
    timers: simTimers(random, disk.lifeline()),
    journalBytes: 600 + random.below(3 * 1024),
    reserveBytes: 1024,
    headroom: { bytes: 100 + random.below(2000), after: random.below(12) },
    checkpointBytes: random.chance(0.8) ? 1 + random.below(300) : 1e9,
    lock: false,
  };
  const open = sealStore((context) => openJsonStoreWith({ ...context, ...files }), disk.keys);
  return open({ tables: CORE_TABLES, dataDir: FOLDER, log: { info() {}, warn, error() {} } });
}

/** Time that passes with every read of the clock, and alarms that ring after a random while. */
function simTimers(random: SimRandom, alive: () => boolean): Timers {
  let now = 0;
  return {
    now: () => (now += random.below(400)),
    after: (_, work) => {
      let left = 1 + random.below(30);
      const tick = () => {
        if (!alive()) return;
        if (--left === 0) work();
        else if (left > 0) setImmediate(tick).unref();
      };
      setImmediate(tick).unref();
      return () => {
        left = -1;
      };
    },
  };
}

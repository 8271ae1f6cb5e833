import { isDeepStrictEqual } from "node:util";
import { Keyring } from "../../src/core/store/encryption/keyring.ts";
import type { Store } from "../../src/core/store/store.ts";
import { newKey } from "./_key.ts";
import type { Faults, Mutant } from "./sim-disk.ts";
import { NO_FAULTS, SimDisk } from "./sim-disk.ts";
import type { Unit } from "./sim-life.ts";
import { CASES, EMPTY, openOn, pickOperation, readUnit } from "./sim-life.ts";
import { SimRandom } from "./sim-random.ts";

const CLIENTS = 4;
const LIVES = 3;
/** Writes of one client in one life, at most. */
const WRITES = 8;

/** What one client knows: what was acknowledged, and what else may be there after a crash. */
interface Knowledge {
  acknowledged: Unit;
  /** Not acknowledged, not refused: the process ended first. */
  open: Unit | undefined;
  /** Refused, but perhaps on disk until a later write succeeds. */
  refused: { unit: Unit; at: number }[];
}

export interface SimOutcome {
  readonly crashes: number;
  readonly writes: number;
  readonly refusals: number;
  readonly compactions: number;
  readonly checkpoints: number;
  /** Starts that did not read all files, as a checkpoint covered some. */
  readonly shortened: number;
}

/** Every so many seeds the store is encrypted. */
const ENCRYPTED = 8;
const KEYS = new Keyring([newKey()]);

/** Lives through crashes and failures with one seed. Throws where the store breaks its word. */
export async function simulate(seed: number, mutant: Mutant = "none"): Promise<SimOutcome> {
  const random = new SimRandom(seed);
  const disk = new SimDisk(random);
  if (seed % ENCRYPTED === 0) disk.keys = KEYS;
  const knowledge = Array.from({ length: CLIENTS }, () => ({
    acknowledged: EMPTY,
    open: undefined,
    refused: [],
  }));
  const run = new SimRun(random, disk, knowledge);
  for (let life = 0; life < LIVES; life++) {
    disk.mutant = mutant;
    await run.live();
    disk.mutant = "none";
  }
  return run.outcome;
}

class SimRun {
  readonly #random: SimRandom;
  readonly #disk: SimDisk;
  readonly #knowledge: Knowledge[];
  #time = 0;
  /** What a store said that none may ever say. */
  #alarm: string | undefined;
  readonly outcome = { crashes: 0, writes: 0, refusals: 0, compactions: 0, checkpoints: 0, shortened: 0 };

  constructor(random: SimRandom, disk: SimDisk, knowledge: Knowledge[]) {
    this.#random = random;
    this.#disk = disk;
    this.#knowledge = knowledge;
  }

  /** Opens the store, writes until the process ends in one way or another, and checks what is left. */
  async live(): Promise<void> {
    const random = this.#random;
    const disk = this.#disk;
    const ended = new Promise<void>((resolve) => {
      disk.crashAfter(random.chance(0.85) ? 1 + random.below(280) : Number.POSITIVE_INFINITY, resolve);
    });
    disk.faults = random.chance(0.5) ? pickFaults(random) : NO_FAULTS;
    disk.room = random.chance(0.2) ? 4_000 + random.below(20_000) : Number.POSITIVE_INFINITY;

    const life = this.#work();
    await withinTurns(Promise.race([life, ended]));
    await Promise.race([life, ended]);
    if (disk.crashed) this.outcome.crashes++;
    disk.restart(random.chance(0.75));
    disk.faults = NO_FAULTS;
    disk.room = Number.POSITIVE_INFINITY;
    await this.#check();
    disk.restart(random.chance(0.5));
  }

  async #work(): Promise<void> {
    const disk = this.#disk;
    let store: Store;
    try {
      store = await openOn(disk, this.#random, (message) => {
        if (message.includes("would have lost")) this.#alarm = message;
      });
    } catch (error) {
      if (disk.crashed || disk.faults !== NO_FAULTS) return;
      throw new Error("the store refused to open a sound disk", { cause: error });
    }
    await Promise.all(this.#knowledge.map((_, client) => this.#client(store, client)));
    const { details } = await store.stats();
    this.outcome.compactions += Number(details?.compactions);
    this.outcome.checkpoints += Number(details?.checkpoints);
    if (this.#random.chance(0.5)) await store.close().catch(() => {});
  }

  async #client(store: Store, client: number): Promise<void> {
    const known = this.#knowledge[client]!;
    for (let write = 0; write < WRITES && !this.#disk.crashed; write++) {
      const value = `${client}.${this.#time}`;
      const { next, run } = pickOperation(this.#random, known.acknowledged, { client, value });
      const began = this.#time++;
      known.open = next;
      try {
        await run(store);
        known.acknowledged = next;
        known.open = undefined;
        this.outcome.writes++;
        // What was refused before this write started must be gone now: the journal continues after it.
        for (const each of this.#knowledge) each.refused = each.refused.filter(({ at }) => at >= began);
      } catch (error) {
        if (this.#disk.crashed) return;
        if ((error as { type?: string }).type !== "storage_error") throw error;
        this.outcome.refusals++;
        known.open = undefined;
        known.refused.push({ unit: next, at: this.#time++ });
        const trace = await this.#traceOf(store, client);
        if (this.#disk.crashed) return;
        if (trace !== undefined) throw new Error(`client ${client}: a refused write left a trace: ${trace}`);
        if (this.#random.chance(0.2)) this.#disk.room = Number.POSITIVE_INFINITY;
      }
      if (this.#random.chance(0.3)) await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** What a client sees where it is not what was acknowledged to it. */
  async #traceOf(store: Store, client: number): Promise<string | undefined> {
    try {
      const seen = await readUnit(store, client);
      return isDeepStrictEqual(seen, this.#knowledge[client]!.acknowledged)
        ? undefined
        : JSON.stringify(seen);
    } catch (error) {
      if (this.#disk.crashed) return undefined;
      throw error;
    }
  }

  async #check(): Promise<void> {
    if (this.#alarm !== undefined) throw new Error(this.#alarm);
    const store = await openOn(this.#disk, this.#random).catch((cause: unknown) => {
      throw new Error(`refused to open after a crash: ${String(cause)}`, { cause });
    });
    this.outcome.shortened += Number((await store.stats()).details?.covered_files) > 0 ? 1 : 0;
    let jobs = 0;
    let cases = 0;
    for (const [client, known] of this.#knowledge.entries()) {
      const seen = await readUnit(store, client);
      const allowed = [known.acknowledged, known.open, ...known.refused.map(({ unit }) => unit)];
      if (!allowed.some((unit) => unit !== undefined && isDeepStrictEqual(unit, seen))) {
        const expected = JSON.stringify(allowed);
        throw new Error(`client ${client}: found ${JSON.stringify(seen)}, expected one of ${expected}`);
      }
      this.#knowledge[client] = { acknowledged: seen, open: undefined, refused: [] };
      jobs += Number(seen.job !== undefined);
      cases += seen.cases.filter((name) => name !== undefined).length;
    }
    const [jobPage, casePage] = [
      await store.table("Job").list(),
      await store.table("Case").list({ limit: CLIENTS * CASES }),
    ];
    if (jobPage.total !== jobs || casePage.total !== cases || casePage.items.length !== cases) {
      throw new Error(
        `lists have ${jobPage.total} jobs and ${casePage.total} cases, not ${jobs} and ${cases}`,
      );
    }
    await checkIndex(store);
    if (this.#random.chance(0.7)) await store.close();
  }
}

/** Throws where an entity is not found by what its newest version says. */
async function checkIndex(store: Store): Promise<void> {
  for (const name of ["Job", "Case"] as const) {
    for (const item of (await store.table(name).list({ limit: CLIENTS * CASES })).items) {
      const { items } = await store.table(name).list({ where: { name: item.name }, search: item.name });
      if (items.some(({ id }) => id === item.id)) continue;
      throw new Error(`${name} ${item.id} is not found by its name ${item.name}`);
    }
  }
}

function pickFaults(random: SimRandom): Faults {
  const pick = () => (random.chance(0.5) ? 0 : random.next() * 0.08);
  return { write: pick(), sync: pick(), names: pick(), open: pick() };
}

/** Waits for work that needs no more than so many turns of the event loop: more means that a caller was forgotten. */
async function withinTurns(work: Promise<unknown>): Promise<void> {
  let over = false;
  const done = () => {
    over = true;
  };
  work.then(done, done);
  for (let turn = 0; turn < 20_000; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
    if (over) return;
  }
  throw new Error("a caller waits forever");
}

/** Flips one bit of a sound store. Returns whether it was noticed; throws where it was neither noticed nor harmless. */
export async function simulateFlip(
  seed: number,
  flips: number,
): Promise<{ refused: number; harmless: number }> {
  const random = new SimRandom(seed);
  const disk = new SimDisk(random);
  const units = await fill(disk, random);
  const restore = disk.snapshot();
  const outcome = { refused: 0, harmless: 0 };
  for (let flip = 0; flip < flips; flip++) {
    restore();
    const place = disk.flipBit();
    if (place === undefined) break;
    const error = await readAll(disk, random, units);
    if (error === undefined) outcome.harmless++;
    else if (!error.includes(place.file) || !/byte \d+/.test(error)) {
      throw new Error(`bit in ${place.file} byte ${place.byte}: refused without naming it: ${error}`);
    } else outcome.refused++;
  }
  return outcome;
}

/** Some writes, then the end of the process, clean or not; returns what is there. */
async function fill(disk: SimDisk, random: SimRandom): Promise<Unit[]> {
  const store = await openOn(disk, random);
  const units: Unit[] = Array.from({ length: CLIENTS }, () => EMPTY);
  for (let write = 0; write < 10 + random.below(40); write++) {
    const client = random.below(CLIENTS);
    const { next, run } = pickOperation(random, units[client]!, { client, value: `${write}` });
    await run(store);
    units[client] = next;
  }
  if (random.chance(0.5)) await store.close();
  disk.restart(true);
  return units;
}

/** Opens and reads everything; returns the error that names the damage, or `undefined` where all is as it was. */
async function readAll(
  disk: SimDisk,
  random: SimRandom,
  units: readonly Unit[],
): Promise<string | undefined> {
  try {
    const store = await openOn(disk, random);
    for (const [client, unit] of units.entries()) {
      const seen = await readUnit(store, client);
      if (!isDeepStrictEqual(seen, unit)) {
        throw new Error(
          `client ${client}: silently ${JSON.stringify(seen)} instead of ${JSON.stringify(unit)}`,
        );
      }
    }
    return undefined;
  } catch (error) {
    if ((error as { type?: string }).type === "storage_error") return (error as Error).message;
    throw error;
  }
}

import { isDeepStrictEqual } from "node:util";
import { MANIFEST } from "../../src/core/store/json/manifest.ts";
import type { Store } from "../../src/core/store/store.ts";
import type { Mutant } from "./sim-disk.ts";
import { SimDisk } from "./sim-disk.ts";
import type { Unit } from "./sim-life.ts";
import { EMPTY, openOn, pickOperation, readUnit } from "./sim-life.ts";
import { SimRandom } from "./sim-random.ts";

const CLIENTS = 4;

/** The acknowledgments of one client. */
interface Client {
  acknowledged: Unit;
  /** Neither acknowledged nor gone: what was refused while the store changed hands may still exist. */
  possible: Unit[];
  acknowledgements: number;
}

/** Writes of some clients to stores that change while they do. */
class Clients {
  readonly #random: SimRandom;
  readonly clients: Client[] = Array.from({ length: CLIENTS }, () => ({
    acknowledged: EMPTY,
    possible: [],
    acknowledgements: 0,
  }));
  #time = 0;

  constructor(random: SimRandom) {
    this.#random = random;
  }

  get acknowledgements(): number {
    return this.clients.reduce((sum, { acknowledgements }) => sum + acknowledgements, 0);
  }

  /** Lets a client write until `isOver`; a refusal changes nothing that it knows. */
  async write(store: Store, client: number, isOver: () => boolean): Promise<void> {
    const known = this.clients[client]!;
    while (!isOver()) {
      const value = `${client}.${this.#time++}`;
      const { next, run } = pickOperation(this.#random, known.acknowledged, { client, value });
      try {
        await run(store);
        known.acknowledged = next;
        known.possible = [];
        known.acknowledgements++;
      } catch (error) {
        if ((error as { type?: string }).type !== "storage_error") throw error;
        known.possible.push(next);
      }
      await turns(this.#random.below(3));
    }
  }

  async check(store: Store): Promise<void> {
    for (const [client, { acknowledged, possible }] of this.clients.entries()) {
      const seen = await readUnit(store, client);
      if ([acknowledged, ...possible].some((unit) => isDeepStrictEqual(unit, seen))) continue;
      throw new Error(
        `client ${client}: found ${JSON.stringify(seen)}, acknowledged ${JSON.stringify(acknowledged)}`,
      );
    }
  }
}

/**
 * A second host opens the folder while the first one writes: what either acknowledged is there in the end, and the first
 * acknowledges nothing once the second is open. A folder in which the first has stored nothing by then belongs to
 * whichever stores something first. Throws where that is not so.
 */
export async function simulateTakeover(
  seed: number,
  mutant: Mutant = "none",
): Promise<{ before: number; after: number }> {
  const random = new SimRandom(seed);
  const disk = new SimDisk(random);
  disk.mutant = mutant;
  const clients = new Clients(random);
  const first = await openOn(disk, random);
  let left = 5 + random.below(60);
  let isTaken = false;
  let patience = 0;
  const isFirstOver = () => left-- <= 0 && (!isTaken || patience-- <= 0);
  const writing = [0, 1].map((client) => clients.write(first, client, isFirstOver));
  await turns(random.below(200));

  const isNew = !disk.holds(MANIFEST);
  const second = await openOn(disk, random);
  const before = clients.acknowledgements;
  isTaken = true;
  patience = 20 + random.below(20);
  let rest = 10 + random.below(40);
  await Promise.all([
    ...writing,
    ...[2, 3].map((client) => clients.write(second, client, () => rest-- <= 0)),
  ]);

  const hasOneOwner = () => first.health().writable !== second.health().writable;
  // A manifest that the other started in the meantime delays the owner, once and briefly; a process that does
  // not write checks from time to time.
  for (let turn = 0; turn < 5000 && !hasOneOwner(); turn++) await turns(1);
  if (!hasOneOwner()) throw new Error(`both or neither can write: ${second.health().error}`);
  const isFirsts = !second.health().writable;
  if (isFirsts && !isNew) throw new Error("the second does not have the folder");
  const acknowledged = (...of: number[]) =>
    of.reduce((sum, client) => sum + clients.clients[client]!.acknowledgements, 0);
  const late = isFirsts ? acknowledged(2, 3) : acknowledged(0, 1) - before;
  if (late > 0) throw new Error(`${late} writes acknowledged by the one that does not have the folder`);
  await closeAll(random, first, second);
  await checkAfter(disk, random, clients);
  return { before, after: clients.acknowledgements - before };
}

/**
 * The folder goes away while it is written to: nothing is acknowledged meanwhile. When it comes back
 * everything continues automatically; when another one has its name nothing does.
 */
export async function simulateLoss(
  seed: number,
  mutant: Mutant = "none",
): Promise<{ before: number; after: number }> {
  const random = new SimRandom(seed);
  const disk = new SimDisk(random);
  disk.mutant = mutant;
  const clients = new Clients(random);
  const store = await openOn(disk, random);
  let isOver = false;
  let lost = 0;
  const writing = [0, 1, 2, 3].map((client) => clients.write(store, client, () => isOver || lost++ > 400));
  await turns(random.below(200));

  const returns = random.chance(0.5);
  if (returns) disk.hide(true);
  else disk.replaceFolder();
  const before = clients.acknowledgements;
  await turns(100);
  const during = clients.acknowledgements - before;
  if (during > 0) throw new Error(`${during} writes acknowledged without a folder`);
  if (store.health().writable) throw new Error("it says that it can write");
  if (!returns) {
    isOver = true;
    await Promise.all(writing);
    await store.close();
    return { before, after: 0 };
  }
  disk.hide(false);
  for (let turn = 0; turn < 5000 && !store.health().writable; turn++) await turns(1);
  if (!store.health().writable) throw new Error(`it does not continue: ${store.health().error}`);
  isOver = true;
  await Promise.all(writing);
  await clients.write(store, 0, () => clients.acknowledgements > before);
  await closeAll(random, store);
  await checkAfter(disk, random, clients);
  return { before, after: clients.acknowledgements - before };
}

async function closeAll(random: SimRandom, ...stores: Store[]): Promise<void> {
  for (const store of stores) if (random.chance(0.5)) await store.close();
}

async function checkAfter(disk: SimDisk, random: SimRandom, clients: Clients): Promise<void> {
  disk.mutant = "none";
  disk.restart(random.chance(0.5));
  const store = await openOn(disk, random);
  await clients.check(store);
  await store.close();
}

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
}

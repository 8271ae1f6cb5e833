// @losses
import { expect, it } from "vitest";
import { makeEntry, makeJob, seeded } from "../../src/core/store/contract/fixtures.ts";
import { FencedError, type Store } from "../../src/core/store/store.ts";
import { openStores } from "../_postgres.ts";
import { requirement } from "../_require.ts";

const { describe } = requirement("postgres");

const TAKE_OVERS = Number(process.env.SVC_TAKE_OVERS ?? 30);
const JOBS = 10;
const INSTANCES = 3;
/** Writes that each owner has under way, before and after it was replaced. */
const UNDER_WAY = 4;

/** A line that an owner has stored, or that a take-over has. */
interface Line {
  readonly epoch: number;
  readonly n: number;
}

describe("Postgres, where instances take jobs over from each other", () => {
  it(`stores no late write of an owner in ${TAKE_OVERS} take-overs under load, and loses none that it acknowledged`, async () => {
    const stores = await openStores(INSTANCES);
    const random = seeded(15);
    for (let job = 0; job < JOBS; job++) await stores[0]!.table("Job").insert(makeJob(`job-${job}`));
    const acknowledged: (Line & { job: string })[] = [];
    let refused = 0;
    let areAllReplaced = false;

    /** As a run does until it is fenced; it does not notice by itself that it has lost its job. */
    const own = async (store: Store, job: string, epoch: number): Promise<void> => {
      let n = 0;
      let isOver = false;
      let late = 0;
      const writer = async (): Promise<void> => {
        while (!isOver) {
          const line = { epoch, n: ++n };
          try {
            await store.transaction((tx) => tx.append("Run", job, makeEntry(JSON.stringify(line))), {
              fence: { job, epoch },
            });
            acknowledged.push({ ...line, job });
            // Then nobody fences it.
            if (areAllReplaced && ++late > 10) return;
          } catch (error) {
            if (!(error instanceof FencedError)) throw error;
            refused++;
            isOver = true;
          }
        }
      };
      await Promise.all(Array.from({ length: UNDER_WAY }, writer));
    };
    const takeOver = (store: Store, job: string): Promise<number> =>
      store.transaction(async (tx) => {
        const { run_count: epoch } = await tx.change("Job", job, (one) => ({
          ...one,
          run_count: one.run_count + 1,
        }));
        await tx.append("Run", job, makeEntry(JSON.stringify({ epoch, n: 0 })));
        return epoch;
      });

    const owners: Promise<void>[] = [];
    const takeOvers = async (job: string): Promise<void> => {
      for (let count = 0; count < TAKE_OVERS / JOBS; count++) {
        const store = stores[Math.floor(random() * INSTANCES)]!;
        owners.push(own(store, job, await takeOver(store, job)));
      }
      // The last owners are replaced by nobody.
      await takeOver(stores[0]!, job);
    };
    await Promise.all(Array.from({ length: JOBS }, (_, job) => takeOvers(`job-${job}`)));
    areAllReplaced = true;
    await Promise.all(owners);

    let takenOver = 0;
    for (let job = 0; job < JOBS; job++) {
      const id = `job-${job}`;
      const lines = (await stores[0]!.log("Run").read(id)).map(
        ({ entry }) => JSON.parse((entry as { message: string }).message) as Line,
      );
      let owner = 0;
      const tooLate: Line[] = [];
      for (const line of lines) {
        if (line.n === 0) {
          expect(line.epoch).toBe(owner + 1);
          owner = line.epoch;
          takenOver++;
        } else if (line.epoch !== owner) tooLate.push(line);
      }
      expect(tooLate, id).toEqual([]);
      const stored = lines.filter(({ n }) => n > 0).map(({ epoch, n }) => `${epoch}/${n}`);
      const known = acknowledged.filter((one) => one.job === id).map(({ epoch, n }) => `${epoch}/${n}`);
      expect(stored.sort(), id).toEqual(known.sort());
    }
    expect(takenOver).toBe(JOBS * (Math.ceil(TAKE_OVERS / JOBS) + 1));
    expect(refused).toBe(UNDER_WAY * (takenOver - JOBS));
  });
});

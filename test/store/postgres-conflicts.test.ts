import { setImmediate as immediate } from "node:timers/promises";
import { expect, it } from "vitest";
import type { StoredJob } from "../../src/core/models/job.ts";
import { at, makeCase, makeEntry, makeJob, seeded } from "../../src/core/store/contract/fixtures.ts";
import type { Store } from "../../src/core/store/store.ts";
import { openStores } from "../_postgres.ts";
import { requirement } from "../_require.ts";

const { describe } = requirement("postgres");

describe("Postgres, open several times", () => {
  it("loses no change of an entity that all change", async () => {
    const stores = await openStores(3);
    await stores[0]!.table("Job").insert(makeJob("a"));

    await Promise.all(
      stores.flatMap((store) =>
        Array.from({ length: 40 }, async (_, number) => {
          await store.transaction(async (tx) => {
            await tx.change("Job", "a", (job) => ({ ...job, case_count: job.case_count + 1 }));
            await tx.append("Run", "a", makeEntry(`${number}`));
          });
        }),
      ),
    );

    for (const store of stores) expect((await store.table("Job").get("a"))?.case_count).toBe(120);
    const numbers = (await stores[0]!.log("Run").read("a")).map(({ seq }) => seq);
    expect(numbers).toEqual(Array.from({ length: 120 }, (_, one) => one + 1));
  });

  it("lets one of two win that each read what the other writes", async () => {
    const [one, other] = (await openStores(2)) as [Store, Store];
    for (const id of ["a", "b"]) await one.table("Job").insert(makeJob(id));
    // Each stops a job if the other one is still running.
    const stop = (store: Store, id: string, other: string) =>
      store.transaction(async (tx) => {
        if ((await tx.get("Job", other))?.status !== "in_progress") return false;
        await tx.change("Job", id, (job) => ({ ...job, status: "stopped" }));
        return true;
      });

    for (let round = 0; round < 20; round++) {
      const stopped = await Promise.all([stop(one, "a", "b"), stop(other, "b", "a")]);

      expect(stopped.filter(Boolean)).toHaveLength(1);
      for (const id of ["a", "b"])
        await other.table("Job").change(id, (job) => ({ ...job, status: "in_progress" }));
    }
  });

  it("lets one of two win that each see that something is absent which the other inserts", async () => {
    const [one, other] = (await openStores(2)) as [Store, Store];
    const insert = (store: Store, id: string, other: string) =>
      store.transaction(async (tx) => {
        if ((await tx.get("Job", other)) !== undefined) return false;
        await tx.insert("Job", makeJob(id));
        return true;
      });

    for (let round = 0; round < 20; round++) {
      const [a, b] = [`a${round}`, `b${round}`];
      const inserted = await Promise.all([insert(one, a, b), insert(other, b, a)]);

      expect(inserted.filter(Boolean)).toHaveLength(1);
    }
  });

  it("lets one of two win that each count what the other adds to", async () => {
    const [one, other] = (await openStores(2)) as [Store, Store];
    // As a job that ends when it has no open case, and a case that is opened while the job runs.
    const add = (store: Store, job: string, id: string) =>
      store.transaction(async (tx) => {
        if ((await tx.ids("Case", "job_id", job)).length > 0) return false;
        await tx.insert("Case", makeCase(id, job));
        return true;
      });

    for (let round = 0; round < 20; round++) {
      const added = await Promise.all([
        add(one, `j${round}`, `a${round}`),
        add(other, `j${round}`, `b${round}`),
      ]);

      expect(added.filter(Boolean)).toHaveLength(1);
    }
  });

  it("does not decide by what it has in memory of an entity that another has changed", async () => {
    const [one, other] = (await openStores(2)) as [Store, Store];
    await one.table("Job").insert(makeJob("a"));
    await other.table("Job").change("a", (job) => ({ ...job, status: "completed" }));

    const status = await one.transaction(async (tx) => (await tx.get("Job", "a"))?.status);
    const error = one.transaction(async (tx) => {
      const job = await tx.get("Job", "a");
      if (job?.status === "completed") throw new Error("it is over");
      throw new Error("decided by an old version");
    });

    expect(status).toBe("completed");
    await expect(error).rejects.toThrow("it is over");
    await other.table("Job").remove("a");
    await one.table("Job").insert(makeJob("a", { name: "new" }));
    await expect(other.table("Job").insert(makeJob("a"))).rejects.toThrow("already exists");
  });

  it("loses no change that was written together with the one before it", async () => {
    const [store] = (await openStores(1)) as [Store];
    const add = (change: number) => (job: StoredJob) => ({ ...job, total_cost: job.total_cost + change });
    for (let round = 0; round < 10; round++) {
      const id = `a${round}`;
      await store.table("Job").insert(makeJob(id));
      const [one, other] = [new Gate(), new Gate()];

      // What follows waits until this is written, and is one group then.
      const before = store.table("Job").insert(makeJob(`b${round}`));
      await immediate();
      await immediate();
      const first = store.table("Job").change(id, add(1));
      const second = store.transaction(async (tx) => {
        await one.opened;
        await tx.change("Job", id, add(10));
      });
      // Sees the first, and nothing of the second yet.
      const third = store.transaction(async (tx) => {
        for (let turn = 0; turn < 100; turn++) await undefined;
        await tx.get("Job", id);
        one.open();
        await other.opened;
        await tx.change("Job", id, add(100));
      });
      await Promise.all([before, first, second]);
      other.open();
      await third;

      expect((await store.table("Job").get(id))?.total_cost).toBe(111);
    }
  });

  it.each([1, 2, 3])("is serializable: every history has an order (%i)", async (seed) => {
    const stores = await openStores(2);
    const history = await randomHistory(stores, seed);

    expect(history.length).toBeGreaterThan(150);
    expect(findCycle(history)).toBeUndefined();
  });

  it("stores no write of an earlier run after a claim of another instance", async () => {
    const [owner, thief] = (await openStores(2)) as [Store, Store];
    await owner.table("Job").insert(makeJob("a"));
    let late = 0;
    const append = (epoch: number) =>
      owner
        .transaction((tx) => tx.append("Run", "a", makeEntry(`run ${epoch}`)), { fence: { job: "a", epoch } })
        .catch((error: Error) => {
          expect(error.name).toBe("FencedError");
          late++;
        });
    for (let epoch = 0; epoch < 30; epoch++) {
      const before = Array.from({ length: 4 }, () => append(epoch));
      const claim = thief.transaction(async (tx) => {
        await tx.change("Job", "a", (job) => ({ ...job, run_count: job.run_count + 1 }));
        await tx.append("Run", "a", makeEntry(`claim ${epoch + 1}`));
      });
      await Promise.all([claim, ...before, append(epoch)]);
      await append(epoch);
    }

    expect(late).toBeGreaterThanOrEqual(30);
    let current = 0;
    for (const { entry } of await thief.log("Run").read("a")) {
      const [what, epoch] = (entry as { message: string }).message.split(" ");
      if (what === "claim") current = Number(epoch);
      expect(Number(epoch)).toBe(current);
    }
  });

  it("lets only those of a group run again that conflict", async () => {
    const [one, other] = (await openStores(2)) as [Store, Store];
    const ids = Array.from({ length: 20 }, (_, number) => `j${number}`);
    await Promise.all(ids.map((id) => one.table("Job").insert(makeJob(id))));
    await other.table("Job").change("j7", (job) => ({ ...job, name: "by another" }));
    const runs = new Map<string, number>();

    await Promise.all(
      ids.map((id) =>
        one.transaction(async (tx) => {
          runs.set(id, (runs.get(id) ?? 0) + 1);
          await tx.change("Job", id, (job) => ({ ...job, total_cost: 1 }));
        }),
      ),
    );

    expect([...runs].filter(([, count]) => count > 1)).toEqual([["j7", 2]]);
    expect(await one.table("Job").get("j7")).toMatchObject({ name: "by another", total_cost: 1 });
  });
});

class Gate {
  open = () => {};
  readonly opened = new Promise<void>((resolve) => {
    this.open = resolve;
  });
}

/** What a transaction read and wrote: who wrote what it read, and whose version it replaced. */
interface Step {
  readonly name: string;
  /** Key to the name of the step whose version was read. */
  readonly reads: Map<string, string>;
  /** Key to the name of the step whose version was replaced. */
  readonly writes: Map<string, string>;
  /** A facet's value to the ids that were seen. */
  readonly seen: Map<string, ReadonlySet<string>>;
  /** Ids of cases that were inserted, to their facet's value. */
  readonly inserts: Map<string, string>;
}

/** Transactions that read and write at random, by several workers of each store. */
async function randomHistory(stores: readonly Store[], seed: number): Promise<Step[]> {
  const keys = ["a", "b", "c", "d"];
  const groups = ["g1", "g2", "g3"];
  for (const key of keys) await stores[0]!.table("Job").insert(makeJob(key, { name: "start" }));
  const history: Step[] = [];
  const worker = async (store: Store, number: number) => {
    const random = seeded(seed * 100 + number);
    const some = <T>(all: readonly T[], share: number) => all.filter(() => random() < share);
    for (let round = 0; round < 20; round++) {
      const name = `${number}.${round}`;
      const plan = {
        read: some(keys, 0.4),
        write: some(keys, 0.25),
        seen: some(groups, 0.3),
        insert: some(groups, 0.2),
      };
      const step = await store.transaction(async (tx) => {
        const done: Step = { name, reads: new Map(), writes: new Map(), seen: new Map(), inserts: new Map() };
        for (const key of plan.read) done.reads.set(key, (await tx.get("Job", key))!.name);
        for (const group of plan.seen) done.seen.set(group, new Set(await tx.ids("Case", "job_id", group)));
        for (const key of plan.write) {
          await tx.change("Job", key, (job) => {
            done.writes.set(key, job.name);
            return { ...job, name };
          });
        }
        for (const group of plan.insert) {
          const id = `${name} ${group}`;
          await tx.insert("Case", makeCase(id, group, { created_at: at(round) }));
          done.inserts.set(id, group);
        }
        return done;
      });
      history.push(step);
    }
  };
  await Promise.all(
    stores.flatMap((store, at) => [0, 1, 2, 3].map((number) => worker(store, at * 4 + number))),
  );
  return history;
}

/** The names of steps none of which can be the first of them; missing if the history has an order. */
function findCycle(history: readonly Step[]): string[] | undefined {
  const before = new Map(history.map(({ name }) => [name, new Set<string>()]));
  const add = (first: string | undefined, second: string) => {
    if (first !== undefined && first !== "start" && first !== second) before.get(second)!.add(first);
  };
  const replacedBy = new Map<string, string>();
  for (const { name, writes } of history)
    for (const [key, old] of writes) {
      // Two that replace the same version: one of them is lost.
      if (replacedBy.has(`${key} ${old}`)) return [name, replacedBy.get(`${key} ${old}`)!];
      replacedBy.set(`${key} ${old}`, name);
    }
  const inserted = history.flatMap(({ name, inserts }) =>
    [...inserts].map(([id, group]) => ({ id, group, name })),
  );
  for (const { name, reads, writes, seen } of history) {
    for (const [key, from] of [...reads, ...writes]) {
      add(from, name);
      const next = replacedBy.get(`${key} ${from}`);
      if (next !== undefined && next !== name) add(name, next);
    }
    for (const [group, ids] of seen) {
      for (const one of inserted) {
        if (one.group !== group) continue;
        if (ids.has(one.id)) add(one.name, name);
        else add(name, one.name);
      }
    }
  }
  for (let size = -1; size !== before.size; ) {
    size = before.size;
    for (const [name, first] of before) if (![...first].some((one) => before.has(one))) before.delete(name);
  }
  return before.size === 0 ? undefined : [...before.keys()];
}

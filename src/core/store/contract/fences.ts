import assert from "node:assert/strict";
import type { Store } from "../store.ts";
import { makeCase, makeEntry, makeJob, type StoreTest } from "./fixtures.ts";

/** Guarantees for transactions with a fence, and what tells the owners of jobs apart. */
export function fenceTests(test: StoreTest): void {
  const fenced = { name: "FencedError" };
  const append = (store: Store, epoch: number, text = `run ${epoch}`, job = "a") =>
    store.transaction((tx) => tx.append("Run", job, makeEntry(text)), { fence: { job, epoch } });
  const claim = (store: Store) =>
    store.transaction(async (tx) => {
      const { run_count } = await tx.change("Job", "a", (job) => ({ ...job, run_count: job.run_count + 1 }));
      await tx.append("Run", "a", makeEntry(`claim ${run_count}`));
      return run_count;
    });
  const linesOf = async (store: Store) =>
    (await store.log("Run").read("a")).map(({ entry }) => (entry as { message?: string }).message);

  test("a transaction of the job's current run is stored", async (store) => {
    await store.table("Job").insert(makeJob("a", { run_count: 3 }));
    assert.equal(await append(store, 3), 1);
    assert.deepEqual(await linesOf(store), ["run 3"]);
  });

  test("a transaction of another run is rejected, and nothing of it is stored", async (store) => {
    await store.table("Job").insert(makeJob("a", { run_count: 3 }));
    for (const epoch of [2, 4]) {
      const work = store.transaction(
        async (tx) => {
          await tx.insert("Case", makeCase("c", "a"));
          await tx.change("Job", "a", (job) => ({ ...job, name: "late" }));
          await tx.append("Run", "a", makeEntry("late"));
        },
        { fence: { job: "a", epoch } },
      );
      await assert.rejects(work, fenced);
    }
    assert.equal(await store.table("Case").get("c"), undefined);
    assert.notEqual((await store.table("Job").get("a"))?.name, "late");
    assert.equal(await store.log("Run").last("a"), 0);
  });

  test("a fence can be of a probe job, which no list of jobs has", async (store) => {
    const row = { id: "a", created_at: "2026-01-31T09:30:00.000Z", owner: null, run_count: 2, steps: 0 };
    await store.table("Probe").insert(row);
    const step = (epoch: number) =>
      store.transaction((tx) => tx.change("Probe", "a", (probe) => ({ ...probe, steps: probe.steps + 1 })), {
        fence: { job: "a", epoch, table: "Probe" },
      });
    await assert.rejects(step(1), fenced);
    await step(2);
    assert.equal((await store.table("Probe").get("a"))?.steps, 1);
    await assert.rejects(append(store, 2), fenced);
    assert.equal((await store.table("Job").list({})).total, 0);
  });

  test("a transaction of a job that does not exist, or no longer, is rejected", async (store) => {
    await assert.rejects(append(store, 0), fenced);
    await store.table("Job").insert(makeJob("a", { run_count: 1 }));
    await store.transaction(async (tx) => {
      await tx.remove("Job", "a");
      await tx.clear("Run", "a");
    });
    await assert.rejects(append(store, 1), fenced);
    assert.equal(await store.log("Run").last("a"), 0);
  });

  test("a claim that is still being stored counts", async (store) => {
    await store.table("Job").insert(makeJob("a", { run_count: 1 }));
    const claimed = claim(store);
    const late = append(store, 1);
    await assert.rejects(late, fenced);
    assert.equal(await claimed, 2);
    const removed = store.table("Job").remove("a");
    await assert.rejects(append(store, 2), fenced);
    assert.equal(await removed, true);
  });

  test("what counts is the run before the transaction, not the one that it begins itself", async (store) => {
    await store.table("Job").insert(makeJob("a", { run_count: 1 }));
    const begin = (epoch: number) =>
      store.transaction(
        async (tx) => {
          await tx.change("Job", "a", (job) => ({ ...job, run_count: job.run_count + 1 }));
        },
        { fence: { job: "a", epoch } },
      );
    await begin(1);
    await assert.rejects(begin(1), fenced);
    await begin(2);
    assert.equal((await store.table("Job").get("a"))?.run_count, 3);
  });

  test("a fence concerns its own job only", async (store) => {
    await store.table("Job").insert(makeJob("a", { run_count: 5 }));
    await store.table("Job").insert(makeJob("b", { run_count: 1 }));
    await store.transaction((tx) => tx.change("Job", "a", (job) => ({ ...job, name: "by b" })), {
      fence: { job: "b", epoch: 1 },
    });
    assert.equal((await store.table("Job").get("a"))?.name, "by b");
  });

  test("changes of other fields of a job do not end its run", async (store) => {
    await store.table("Job").insert(makeJob("a", { run_count: 1 }));
    const writes = Array.from({ length: 30 }, async (_, at) => {
      if (at % 3 === 0) await store.table("Job").change("a", (job) => ({ ...job, total_cost: at }));
      else await append(store, 1, `${at}`);
    });
    await Promise.all(writes);
    assert.equal(await store.log("Run").last("a"), 20);
  });

  test("no write of an earlier run follows a claim, however many are under way", async (store) => {
    await store.table("Job").insert(makeJob("a"));
    let refused = 0;
    for (let epoch = await claim(store); epoch <= 40; ) {
      const writes = Array.from({ length: 5 }, () =>
        append(store, epoch).catch((error: Error) => {
          assert.equal(error.name, "FencedError");
          refused++;
        }),
      );
      const [next] = await Promise.all([claim(store), ...writes]);
      // The first writes were asked for before the claim, these after it.
      await assert.rejects(append(store, epoch), fenced);
      epoch = next;
    }
    const lines = await linesOf(store);
    assert.equal(lines.length, 41 + 40 * 5 - refused);
    let current = 0;
    for (const line of lines) {
      const [what, epoch] = line!.split(" ");
      if (what === "claim") current = Number(epoch);
      assert.equal(Number(epoch), current, `"${line}" is stored after claim ${current}`);
    }
  });

  test("all who have the store open hear of a hint, until they no longer listen", async (store) => {
    const heard: unknown[] = [];
    let hears = () => {};
    const off = store.hints.on((hint) => heard.push(hint));
    const stop = store.hints.on((hint) => {
      if (hint !== "all" && hint.ids.includes("last")) hears();
    });
    const next = () =>
      new Promise<void>((resolve) => {
        hears = resolve;
      });
    let last = next();
    store.hints.tell("job", ["a", "last"]);
    await last;
    off();
    last = next();
    store.hints.tell("job", ["last"]);
    await last;
    stop();
    const topics = heard.filter((hint) => hint !== "all");
    assert.deepEqual(topics, [{ topic: "job", ids: ["a", "last"] }]);
  });

  test("it has a clock, which does not go back", async (store) => {
    const [one, other] = [await store.now(), await store.now()];
    assert.ok(one instanceof Date && one.getTime() > 0 && other.getTime() >= one.getTime());
  });
}

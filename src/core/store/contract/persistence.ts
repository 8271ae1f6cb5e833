import assert from "node:assert/strict";
import { isServiceError } from "../../base/errors.ts";
import type { StoreFactory } from "../store.ts";
import { inFolder, makeEntry, makeJob, withStore } from "./fixtures.ts";

/** Guarantees for a folder that is opened again. */
export function persistenceTests(
  it: (name: string, test: () => Promise<void>) => void,
  { open, shared = false }: { readonly open: StoreFactory; readonly shared?: boolean },
): void {
  it("entities, removals and log entries are kept", () =>
    inFolder(async (dataDir) => {
      const big = makeJob("big", { payload: "x".repeat(300_000) });
      await withStore(open, dataDir, async (store) => {
        await store.table("Job").insert(big);
        await store.table("Job").insert(makeJob("gone"));
        await store.table("Job").insert(makeJob("__proto__"));
        await store
          .table("Job")
          .change("__proto__", (job) => ({ ...job, status: "completed", name: "\ud800" }));
        await store.table("Job").remove("gone");
        await store.log("Run").append("a", makeEntry("one"));
        await store.log("Run").append("a", makeEntry("two"));
        await store.log("Run").append("gone", makeEntry("one"));
        await store.transaction((tx) => tx.clear("Run", "gone"));
      });
      for (let round = 0; round < 3; round++) {
        await withStore(open, dataDir, async (store) => {
          assert.deepEqual(await store.table("Job").get("big"), big);
          assert.equal(await store.table("Job").get("gone"), undefined);
          assert.equal((await store.table("Job").get("__proto__"))?.name, "\ud800");
          assert.deepEqual(await store.table("Job").countBy("status"), { in_progress: 1, completed: 1 });
          assert.equal(await store.log("Run").last("a"), 2 + round);
          assert.equal(await store.log("Run").last("gone"), 0);
          assert.equal(await store.log("Run").append("a", makeEntry("more")), 3 + round);
        });
      }
    }));

  it("changed entities are found by their current values", () =>
    inFolder(async (dataDir) => {
      await withStore(open, dataDir, async (store) => {
        const jobs = store.table("Job");
        for (const id of ["a", "b", "c"]) await jobs.insert(makeJob(id, { name: `First ${id}` }));
        await jobs.change("a", (job) => ({ ...job, status: "failed", name: "ZEBRA", result: { d: [{}] } }));
        await jobs.change("b", (job) => ({ ...job, status: "completed" }));
        await jobs.change("b", (job) => ({ ...job, status: "failed", name: 'Yak},"d":{' }));
        await jobs.change("c", (job) => ({ ...job, status: "completed" }));
        await jobs.remove("c");
      });
      for (let round = 0; round < 2; round++) {
        await withStore(open, dataDir, async (store) => {
          const jobs = store.table("Job");
          const list = async (query: Parameters<typeof jobs.list>[0]) =>
            (await jobs.list(query)).items.map(({ id, status, name }) => [id, status, name]);
          assert.deepEqual(await jobs.countBy("status"), { failed: 2 });
          assert.deepEqual(await list({ where: { status: "failed" }, sort: "name" }), [
            ["b", "failed", 'Yak},"d":{'],
            ["a", "failed", "ZEBRA"],
          ]);
          assert.deepEqual(await list({ search: "zebra" }), [["a", "failed", "ZEBRA"]]);
          assert.deepEqual(await list({ search: "first" }), []);
          assert.deepEqual((await jobs.get("a"))?.result, { d: [{}] });
        });
      }
    }));

  if (shared) {
    it("what one has stored, all others who have the data open read immediately", () =>
      inFolder((dataDir) =>
        withStore(open, dataDir, (one) =>
          withStore(open, dataDir, async (other) => {
            assert.ok(one.isShared && other.isShared);
            for (let round = 1; round <= 10; round++) {
              const [writer, reader] = round % 2 === 0 ? [one, other] : [other, one];
              const write = writer.transaction(async (tx) => {
                if (round === 1) await tx.insert("Job", makeJob("a"));
                await tx.change("Job", "a", (job) => ({ ...job, case_count: job.case_count + 1 }));
                await tx.append("Run", "a", makeEntry(`${round}`));
              });
              await write;
              assert.equal((await reader.table("Job").get("a"))?.case_count, round);
              assert.equal(await reader.log("Run").last("a"), round);
            }
          }),
        ),
      ));
    return;
  }
  it("a second opening of the same folder is refused while the first is open", () =>
    inFolder(async (dataDir) => {
      await withStore(open, dataDir, async () => {
        await assert.rejects(
          withStore(open, dataDir, async () => {}),
          isServiceError,
        );
      });
      await withStore(open, dataDir, async (store) => {
        await store.table("Job").insert(makeJob("a"));
      });
    }));
}

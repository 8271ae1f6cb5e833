import { defineAgent } from "agent-control-service";
import * as v from "valibot";
import { expect, test } from "vitest";
import { storageError } from "../../src/core/store/storage-error.ts";
import type { Store } from "../../src/core/store/store.ts";
import { agentOf } from "./_agent.ts";
import { emptyStore, Life } from "./_lives.ts";

/** A store of which so many reads fail, as where a database is restarted. */
async function failing(reads: { left: number }): Promise<Store> {
  const store = await emptyStore();
  const fail = (): void => {
    if (reads.left-- > 0) throw storageError("The database does not answer", "It continues by itself.");
  };
  const table = ((name: "Job") => {
    const inner = store.table(name);
    const methods = ["get", "peek", "list", "ids"] as const;
    const read = methods.map((method) => [
      method,
      async (...given: never[]) => {
        fail();
        return (inner[method] as (...given: never[]) => unknown)(...given);
      },
    ]);
    return { ...inner, ...Object.fromEntries(read) };
  }) as Store["table"];
  return {
    table,
    log: (name) => store.log(name),
    transaction: (work, options) => store.transaction(work, options),
    hints: store.hints,
    now: () => store.now(),
    health: () => store.health(),
    stats: () => store.stats(),
    close: () => store.close(),
  };
}

test("a job waits while the store cannot be read, and records no failure of it", async () => {
  const reads = { left: 0 };
  const child = defineAgent({
    name: "Child",
    version: "1.0.0",
    methods: { job_start: { fields: v.object({}), run: () => "done" } },
  });
  const worker = agentOf(async ({ job }) => {
    reads.left = 3;
    const event = await job.waitFor<{ n: number }>("news");
    reads.left = 3;
    const started = await job.start<string>("child", {});
    reads.left = 3;
    return [event.data.n, await started.result()];
  });
  const life = new Life(await failing(reads), [worker, child]);
  await life.start();
  await expect.poll(() => reads.left).toBeLessThanOrEqual(0);
  await life.runner.receive("news", { id: "one", data: { n: 1 } });

  expect(await life.ended()).toMatchObject({ status: "completed", result: [1, "done"] });
  expect(JSON.stringify(await life.entries())).not.toContain("does not answer");
});

import { setTimeout as delay } from "node:timers/promises";
import type { AgentDefinition } from "agent-control-service";
import { expect, test } from "vitest";
import { storageError } from "../../src/core/store/storage-error.ts";
import type { Store, Transaction, TransactionOptions } from "../../src/core/store/store.ts";
import { agentOf, gate } from "./_agent.ts";
import { emptyStore, JOB, Life } from "./_lives.ts";

/** A store in which a test can block the next transaction, or the next read of a run log. */
class Contested {
  readonly store: Store;
  /** Called when the next transaction is done with its work, which is not stored before; its failure is the store's. */
  beforeStored: (() => Promise<void>) | undefined;
  /** Called when the next transaction begins. */
  beforeWork: (() => Promise<void>) | undefined;
  /** Called when a run log was read. */
  afterRead: (() => Promise<void>) | undefined;
  /** Called when a job was read. */
  afterLook: (() => Promise<void>) | undefined;

  private constructor(inner: Store) {
    this.store = {
      table: (name) => {
        const table = inner.table(name);
        return {
          ...table,
          get: async (id) => {
            const row = await table.get(id);
            const { afterLook } = this;
            if (name === "Job") this.afterLook = undefined;
            if (name === "Job") await afterLook?.();
            return row;
          },
        };
      },
      log: (name) => {
        const log = inner.log(name);
        return {
          ...log,
          read: async (key, range) => {
            const entries = await log.read(key, range);
            const { afterRead } = this;
            if (name === "Run") this.afterRead = undefined;
            if (name === "Run") await afterRead?.();
            return entries;
          },
        };
      },
      health: () => inner.health(),
      stats: () => inner.stats(),
      close: () => inner.close(),
      hints: inner.hints,
      now: () => inner.now(),
      transaction: async <T>(
        work: (tx: Transaction) => Promise<T>,
        options?: TransactionOptions,
      ): Promise<T> => {
        const { beforeStored, beforeWork } = this;
        this.beforeStored = undefined;
        this.beforeWork = undefined;
        return inner.transaction(async (tx) => {
          await beforeWork?.();
          const done = await work(tx);
          await beforeStored?.();
          return done;
        }, options);
      },
    };
  }

  static async open(): Promise<Contested> {
    return new Contested(await emptyStore());
  }
}

async function live(agent: AgentDefinition): Promise<{ contested: Contested; life: Life }> {
  const contested = await Contested.open();
  return { contested, life: new Life(contested.store, agent) };
}

test("a stopped job that an operator ends just as its handler ends has that end, and no error is logged", async () => {
  const [stopped, goOn] = [gate(), gate()];
  const agent = agentOf(async ({ signal }) => {
    signal.addEventListener("abort", stopped.open);
    await goOn.opened;
  });
  const { contested, life } = await live(agent);
  await life.start();
  await delay(10);
  await life.runner.stop(JOB);
  await stopped.opened;

  contested.beforeWork = async () => {
    goOn.open();
    await delay(50);
  };
  await life.runner.override(JOB, "completed", "operator");
  await delay(50);

  expect((await life.jobs.get(JOB)).status).toBe("completed");
  expect(life.logs.filter((line) => line.includes("could not be stored"))).toEqual([]);
});

test("a job whose handler ends while a change of its status fails in the store still ends", async () => {
  const [begun, goOn] = [gate(), gate()];
  const agent = agentOf(async () => {
    begun.open();
    await goOn.opened;
    return "done";
  });
  const { contested, life } = await live(agent);
  await life.start();
  await begun.opened;

  contested.beforeStored = async () => {
    goOn.open();
    await delay(50);
    throw storageError("The disk is full", "Free space.");
  };
  const refused = await life.runner.override(JOB, "stopped", "operator").catch((error: unknown) => error);
  const job = await life.ended(2000);

  expect(refused).toMatchObject({ type: "storage_error" });
  expect(job).toMatchObject({ status: "completed", result: "done" });
  expect(life.logs.filter((line) => line.includes("ERROR"))).toEqual([]);
});

test("a step that ends while a change of its job's status fails in the store is recorded, and the job continues", async () => {
  const [begun, goOn] = [gate(), gate()];
  const did: string[] = [];
  const agent = agentOf(async ({ job, signal }) => {
    await job.step("first", async () => {
      begun.open();
      await goOn.opened;
    });
    await job.step("second", () => void did.push(signal.aborted ? "interrupted" : "second"));
    return "done";
  });
  const { contested, life } = await live(agent);
  await life.start();
  await begun.opened;

  contested.beforeStored = async () => {
    goOn.open();
    await delay(50);
    throw storageError("The disk is full", "Free space.");
  };
  await life.runner.remove(JOB, "operator").catch(() => {});
  const job = await life.ended(2000);

  expect(job).toMatchObject({ status: "completed", result: "done" });
  expect(did).toEqual(["second"]);
});

test("a job that ends while an operator is about to set its status continues with all of its cases and costs", async () => {
  const [begun, goOn, ended] = [gate(), gate(), gate()];
  let isBroken = true;
  const agent = agentOf(async ({ job }) => {
    begun.open();
    await goOn.opened;
    const item = await job.openCase({ id: "late", name: "late" });
    await item.step("costly", () => {}, { cost: 2 });
    if (isBroken) throw new Error("broken");
    await item.close();
    return "done";
  });
  const { contested, life } = await live(agent);
  life.hooks.on("job:finished", ended.open);
  await life.start();
  await begun.opened;

  contested.afterLook = async () => {
    goOn.open();
    await ended.opened;
    isBroken = false;
  };
  const retried = await life.runner.override(JOB, "in_progress", "operator");
  const job = await life.ended(2000);

  expect(retried.total_cost).toBe(2);
  expect(job).toMatchObject({ status: "completed", result: "done", total_cost: 2 });
  expect(await life.cases.get("late")).toMatchObject({ status: "completed" });
});

test("a job that is retried and fails while a second retry is being stored is retried with all of its cases", async () => {
  let tries = 0;
  const agent = agentOf(async ({ job }) => {
    const attempt = ++tries;
    const first = await job.openCase({ id: "first", name: "first" });
    if (attempt === 1) throw new Error("broken");
    const second = await job.openCase({ id: "second", name: "second" });
    if (attempt === 2) throw new Error("broken again");
    await first.close();
    await second.close();
    return "done";
  });
  const { contested, life } = await live(agent);
  await life.start();
  await life.ended(2000);

  contested.afterRead = async () => {
    await life.runner.retry(JOB, "last_step", "first");
    await life.ended(2000);
  };
  await life.runner.retry(JOB, "last_step", "second");
  const job = await life.ended(2000);

  expect(job).toMatchObject({ status: "completed", result: "done" });
  expect(await life.cases.get("second")).toMatchObject({ status: "completed" });
});

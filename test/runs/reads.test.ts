import { setImmediate as soon } from "node:timers/promises";
import type { AgentDefinition } from "agent-control-service";
import { expect, test } from "vitest";
import type { RunEntry } from "../../src/core/models/run-entry.ts";
import type { Store } from "../../src/core/store/store.ts";
import { agentOf } from "./_agent.ts";
import { emptyStore, JOB, Life } from "./_lives.ts";

type Handler = Parameters<typeof agentOf>[0];

/** Never ends: the process dies in it. */
const hang = () => new Promise<never>(() => {});

/** A helper of handlers, whose own source does not say that they read. */
const look = <T>(handle: { read(): Promise<T> }): Promise<T> => handle.read();

/** Runs a handler until its log has so many lines, at which its process dies. */
async function untilLine(agent: AgentDefinition, diesAt: number): Promise<Store> {
  const store = await emptyStore();
  const life = new Life(store, agent, { diesAt });
  await Promise.race([life.start(), life.died]);
  await life.died;
  return store;
}

async function resumed(store: Store, agent: AgentDefinition) {
  const life = new Life(store, agent);
  await life.resume();
  const job = (await life.ended())!;
  return { job, life };
}

/** The store as a version had left it that did not record reads. */
async function withoutReads(store: Store): Promise<Store> {
  const old = await emptyStore();
  const job = (await store.table("Job").get(JOB))!;
  const lines = await store.log("Run").read(JOB);
  await old.transaction(async (tx) => {
    await tx.insert("Job", job);
    for (const { entry } of lines) {
      const { reads: _reads, ...rest } = entry as RunEntry & { reads?: true };
      await tx.append("Run", JOB, rest as RunEntry);
    }
  });
  return old;
}

const kinds = async (life: Life) =>
  (await life.entries()).flatMap((entry) => (entry.type === "call" ? [entry.call] : []));

/** Reads, and continues with two steps. */
const readsFirst =
  (seen: unknown[]): Handler =>
  async ({ job }) => {
    seen.push((await job.read()).updated_at);
    await job.step("one", () => 1);
    await job.step("two", () => 2);
    return "done";
  };

test("what a handler read is the same after a crash, and is not read again", async () => {
  const [before, after]: unknown[][] = [[], []];
  const store = await untilLine(agentOf(readsFirst(before!)), 4);
  const { job, life } = await resumed(store, agentOf(readsFirst(after!)));

  expect(job).toMatchObject({ status: "completed", result: "done" });
  expect(job.updated_at).not.toBe(before![0]);
  expect(after).toEqual(before);
  expect(await kinds(life)).toEqual(["read", "step", "step"]);
});

test("a read in a step's function, also after a wait, is no call of its own", async () => {
  const agent = agentOf(async ({ job }) => {
    const count = await job.step("count", async () => {
      await soon();
      return (await look(job)).case_ids.length;
    });
    const item = await job.openCase({ id: "a", name: "a" });
    await item.step("in it", async () => {
      await soon();
      await look(item);
      await soon();
      return (await look(item)).update_count;
    });
    const { updates } = await look(item);
    await job.step("end", () => "end");
    return [count, updates.length];
  });
  for (let line = 3; line < 10; line++) {
    const store = await untilLine(agent, line).catch(() => undefined);
    const { job, life } = await resumed(store!, agent);
    expect(job, `died at line ${line}`).toMatchObject({ status: "completed", result: [0, 1] });
    expect(await kinds(life)).toEqual(["step", "open_case", "step", "read", "step"]);
  }
});

test("a job of a version that did not record reads continues, and records what it reads from there on", async () => {
  const [before, after]: unknown[][] = [[], []];
  const plain = agentOf(async ({ job }) => {
    before!.push("no read");
    await job.step("one", () => 1);
    return job.step("two", hang);
  });
  const old = await withoutReads(await untilLine(plain, 3));
  const { job, life } = await resumed(
    old,
    agentOf(async (context) => {
      after!.push((await context.job.read()).status);
      await context.job.step("one", () => 1);
      after!.push((await context.job.read()).status);
      return context.job.step("two", () => "done");
    }),
  );

  expect(job).toMatchObject({ status: "completed", result: "done" });
  expect(after).toEqual(["in_progress", "in_progress"]);
  expect(await kinds(life)).toEqual(["step", "read", "step"]);
});

test("new code may omit a read and add one at the end of the record; one within the record holds the job", async () => {
  const seen: unknown[] = [];
  const first = agentOf(readsFirst(seen));
  const without: Handler = async ({ job }) => {
    await job.step("one", () => 1);
    const { updated_at } = await job.read();
    seen.push(updated_at);
    await job.step("two", () => 2);
    return "without";
  };
  const omitted = await resumed(await untilLine(first, 4), agentOf(without));
  expect(omitted.job).toMatchObject({ status: "completed", result: "without" });
  expect(await kinds(omitted.life)).toEqual(["read", "step", "read", "step"]);
  expect(seen[1]).not.toBe(seen[0]);

  const plain = agentOf(async ({ job }) => {
    await job.step("one", () => 1);
    await job.step("two", () => 2);
    return job.step("three", hang);
  });
  const within = await resumed(await untilLine(plain, 4), agentOf(readsFirst(seen)));
  expect(within.job.held).toMatchObject({ expected: 'step "one"', found: 'read "job"' });
});

test("a read of more than a record may have is refused, in each run", async () => {
  const seen: string[] = [];
  const agent = agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    const part = "x".repeat(6_000_000);
    for (const name of ["one", "two", "three"]) await item.update({ name, payload: { part } });
    seen.push(
      await item.read().then(
        () => "read",
        (error: Error) => `${error.name}: ${error.message}`,
      ),
    );
    return job.step("end", () => "end");
  });
  const store = await untilLine(agent, 8);
  const { job } = await resumed(store, agent);

  expect(job).toMatchObject({ status: "completed", result: "end" });
  expect(seen).toHaveLength(2);
  expect(seen[0]).toMatch(/^TypeError: The result of read "case" of case "a" is longer than 16 MB/);
  expect(seen[1]).toBe(seen[0]);
});

test("a fork is given what was read, with its own ids", async () => {
  const seen: unknown[] = [];
  const agent = agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    const [read, own] = [await item.read(), await job.read()];
    seen.push([read.id === item.id, read.job_id === job.id, read.created_at]);
    seen.push([
      own.id === job.id,
      own.job_context.job_id === job.id,
      own.case_ids?.[0] === item.id,
      own.created_at,
    ]);
    return job.step("end", () => "end");
  });
  const life = new Life(await emptyStore(), agent);
  await life.start();
  await life.ended();
  await life.runner.fork(JOB, { from: "end", job_id: "fork-1" });
  await life.runner.ended("fork-1", 60_000);

  expect(await life.jobs.get("fork-1")).toMatchObject({ status: "completed", result: "end" });
  expect(seen).toHaveLength(4);
  expect(seen[0]).toEqual([true, true, expect.any(String)]);
  expect(seen[1]).toEqual([true, true, true, expect.any(String)]);
  expect(seen.slice(2)).toEqual(seen.slice(0, 2));
});

test("a read that may have been in a step, and was beside it, ends the job in a replay rather than give something else", async () => {
  const agent = agentOf(async ({ job }) => {
    const beside = async () => {
      await soon();
      return (await look(job)).updated_at;
    };
    const slow = job.step("slow", async () => {
      for (let n = 0; n < 20; n++) await soon();
      return 1;
    });
    const [seen] = await Promise.all([beside(), slow]);
    await job.step("two", () => seen);
    return seen;
  });
  const store = await untilLine(agent, 4);
  const { job } = await resumed(store, agent);

  expect(job).toMatchObject({ status: "failed", stop_reason: "nondeterministic" });
  expect(job.error).toContain("was made while a step was under way");
});

test("steps that read after a wait, in a handler whose source does not say so, are replayed", async () => {
  const agent = agentOf(async ({ job }) => {
    const counts: number[] = [];
    for (const name of ["one", "two", "three"])
      counts.push(
        await job.step(name, async () => {
          await soon();
          return (await look(job)).case_ids.length;
        }),
      );
    await job.openCase({ id: "a", name: "a" });
    return [...counts, (await look(job)).case_ids.length];
  });
  for (let line = 3; line < 8; line++) {
    const { job } = await resumed(await untilLine(agent, line), agent);
    expect(job, `died at line ${line}`).toMatchObject({ status: "completed", result: [0, 0, 0, 1] });
  }
});

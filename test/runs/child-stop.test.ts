import { ChildFailedError, type JobHandle } from "agent-control-service";
import { JOBS, RUNNER } from "agent-control-service/plugin";
import { crashTest, testServer } from "agent-control-service/testing";
import { expect, onTestFinished, test } from "vitest";
import { agentOf, gate } from "./_agent.ts";
import { startJob, until } from "./_jobs.ts";
import { emptyStore, JOB, Life } from "./_lives.ts";

const ACTOR = "test";
const MESSAGE = `The job was stopped by its parent "${JOB}"`;

const sleeper = agentOf(({ job }) => job.sleep("1h"), { name: "Sleeper" });

/** Starts a child, stops it and says how it ended. */
const stopping = async (job: JobHandle) => {
  const child = await job.start(sleeper);
  await job.step("before", () => 1);
  await child.stop();
  await job.step("after", () => 2);
  const error = await child.result().then(
    () => undefined,
    (error: ChildFailedError) => error,
  );
  return [error?.status, error?.reason, error?.message.replaceAll(child.id, "child")];
};
const STOPPED = ["cancelled", "stopped", `Child "child" of agent "sleeper" was cancelled: ${MESSAGE}`];
const worker = agentOf(({ job }) => stopping(job));

test("a parent stops its child in the ordinary way, once", async () => {
  const running = gate();
  const told: string[] = [];
  const child = agentOf(
    ({ job, signal }) =>
      job.step("wait", () => {
        running.open();
        return new Promise((_, fail) => {
          signal.addEventListener("abort", () => fail(signal.reason as Error));
        });
      }),
    { name: "Child", methods: { job_stop: { run: ({ job }) => void told.push(job.id) } } },
  );
  const parent = agentOf(async ({ job }) => {
    const started = await job.start(child);
    await job.step("until it runs", () => running.opened);
    await Promise.all([started.stop(), started.stop()]);
    return started.result().catch((error: unknown) => error instanceof ChildFailedError && error.child);
  });
  await using server = await testServer({ agents: [parent, child] });

  const { job, result } = await server.run(parent);

  const [stopped] = (await server.service.get(JOBS).list({ where: { parent_id: job.id } })).items;
  expect(stopped).toMatchObject({
    ...{ id: result, status: "cancelled", stop_reason: "stopped" },
    error: `The job was stopped by its parent "${job.id}"`,
  });
  expect(told).toEqual([stopped!.id]);
  const log = await server.service.get(JOBS).log(job.id);
  expect(log.filter(({ entry }) => entry.type === "call" && entry.call === "stop")).toHaveLength(1);
});

test("a child is stopped once and stays stopped, wherever the process dies", async () => {
  const first = new Life(await emptyStore(), [worker, sleeper]);
  await first.start();
  expect((await first.ended())!.result).toEqual(STOPPED);
  expect(first.writes).toBeGreaterThan(8);
  first.die();

  for (let diesAtWrite = 2; diesAtWrite <= first.writes; diesAtWrite++) {
    const store = await emptyStore();
    const life = new Life(store, [worker, sleeper], { diesAtWrite });
    await Promise.race([life.start(), life.died]);
    await Promise.race([life.ended(), life.died]);
    life.die();
    await life.died;
    const next = new Life(store, [worker, sleeper]);
    await next.resume();
    const job = await next.ended();
    const { items } = await next.jobs.list({ where: { parent_id: JOB } });
    const calls = (await next.entries()).flatMap((entry) => (entry.type === "call" ? [entry.call] : []));
    const child = await next.jobs.log(items[0]!.id);
    const stops = child.filter(({ entry }) => entry.type === "status" && entry.to === "cancelling");
    next.die();

    expect({ diesAtWrite, result: job!.result, calls, children: items.length }).toEqual({
      ...{ diesAtWrite, result: STOPPED, children: 1 },
      calls: ["start", "step", "stop", "step", "child"],
    });
    expect(items[0]).toMatchObject({ status: "cancelled", stop_reason: "stopped", error: MESSAGE });
    expect(stops.length).toBeLessThan(2);
  }
});

test("a child is stopped that another instance runs, by hints alone and by polling alone", async () => {
  for (const shared of [
    { beat: 50, dead: 600_000, giveUp: 600_000, look: 600_000 },
    { beat: 50, dead: 600_000, giveUp: 600_000, look: 20 },
  ]) {
    const memory = await emptyStore();
    const isPoll = shared.look === 20;
    const hints = isPoll ? { tell() {}, on: () => () => {} } : memory.hints;
    const store = new Proxy(memory, {
      get: (target, name) => {
        const member: unknown = name === "hints" ? hints : Reflect.get(target, name);
        return typeof member === "function" ? member.bind(target) : member;
      },
    });
    const running = gate();
    let where = "";
    const waiting = (name: string) =>
      agentOf(
        ({ job }) =>
          job.step("wait", ({ signal }) => {
            where = name;
            running.open();
            return new Promise((_, fail) =>
              signal.addEventListener("abort", () => fail(new Error("stopped"))),
            );
          }),
        { name: "Child" },
      );
    const parent = agentOf(async ({ job }) => {
      const child = await job.start("child");
      await job.step("until it runs", () => running.opened);
      await child.stop();
      return child.result().catch((error: ChildFailedError) => error.reason);
    });
    const there = new Life(store, waiting("there"), { shared });
    await there.resume();
    // Its only place is taken by the parent.
    const here = new Life(store, [parent, waiting("here")], { shared, most: 1 });
    await here.resume();
    onTestFinished(() => Promise.all([here.runner.close(0), there.runner.close(0)]).then(() => {}));

    await here.start();

    expect((await here.ended())!.result).toBe("stopped");
    expect(where).toBe("there");
    const [child] = (await here.jobs.list({ where: { parent_id: JOB } })).items;
    expect(child).toMatchObject({ status: "cancelled", stop_reason: "stopped", error: MESSAGE });
  }
});

test("a child that has ended or was removed stays as it is", async () => {
  const quick = agentOf(() => "done", { name: "Quick" });
  const { opened, open } = gate();
  const parent = agentOf(async ({ job }) => {
    const [ended, removed] = [await job.start(quick), await job.start(sleeper)];
    await ended.result();
    await job.step("until it is removed", () => opened);
    await ended.stop();
    await removed.stop();
    return [await ended.result(), await removed.result().catch((error: Error) => error.message)];
  });
  await using server = await testServer({ agents: [parent, quick, sleeper] });
  const { id } = await startJob(server.service, {});
  const sleeping = async () =>
    (await server.service.get(JOBS).list({ where: { parent_id: id, agent_name: "sleeper" } })).items[0];
  await expect.poll(async () => (await sleeping())?.status).toBe("in_progress");

  await server.service.get(RUNNER).remove((await sleeping())!.id, ACTOR);
  open();

  expect((await until(server.service, id)).result).toEqual(["done", expect.stringContaining("was removed")]);
});

test("a fork does not stop the child of the other job", async () => {
  let stops = false;
  const parent = agentOf(async ({ job }) => {
    const child = await job.start(sleeper);
    await job.step("mark", () => 1);
    if (stops) await child.stop();
    else await job.sleep("1h");
    return "end";
  });
  await using server = await testServer({ agents: [parent, sleeper] });
  const { service } = server;
  const { id } = await startJob(service, {});
  const child = async () => (await service.get(JOBS).list({ where: { agent_name: "sleeper" } })).items[0];
  await expect.poll(async () => (await child())?.status).toBe("in_progress");
  await expect
    .poll(async () => (await service.get(JOBS).log(id)).some(({ entry }) => entry.type === "begun"))
    .toBe(true);

  stops = true;
  const fork = await service.get(RUNNER).fork(id, { from: "sleep" }, ACTOR);

  expect((await until(service, fork.id)).result).toBe("end");
  expect((await child())!.status).toBe("in_progress");
});

test("a child that its parent has stopped is not run again where the parent is retried", async () => {
  let fails = true;
  const parent = agentOf(async ({ job }) => {
    const child = await job.start(sleeper);
    await child.stop();
    const end = child.result();
    return fails ? end : end.catch((error: ChildFailedError) => error.status);
  });
  await using server = await testServer({ agents: [parent, sleeper] });
  const { service } = server;
  const { id } = await startJob(service, {});
  expect((await until(service, id)).status).toBe("failed");

  fails = false;
  await service.get(RUNNER).retry(id, "last_step", ACTOR);

  expect((await until(service, id)).result).toBe("cancelled");
});

test("a job that stops a child survives crashTest", async () => {
  const parent = agentOf(async ({ job }) => (await stopping(job)).slice(0, 2), { name: "Parent" });

  expect((await crashTest(parent, { agents: [sleeper] })).interruptions).toBeGreaterThan(8);
});

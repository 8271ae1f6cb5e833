import { EventTimeoutError, type JobHandle } from "agent-control-service";
import { JOBS, RETENTION, RUNNER, STORE } from "agent-control-service/plugin";
import { crashTest, type TestServer, testServer } from "agent-control-service/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import type { Store, Transaction } from "../../src/core/store/store.ts";
import { agentOf, gate } from "./_agent.ts";
import { startJob, until } from "./_jobs.ts";
import { emptyStore, Life, withParts } from "./_lives.ts";

const agentWith = (run: (job: JobHandle) => unknown, more = {}) =>
  agentOf(({ job }) => run(job), { name: "Worker", ...more });

async function serve(run: (job: JobHandle) => unknown): Promise<TestServer> {
  const server = await testServer({ agents: [agentWith(run)] });
  onTestFinished(() => server[Symbol.asyncDispose]());
  return server;
}

const waits = async (server: TestServer) =>
  (await server.service.get(STORE).table("EventWait").list()).items.length;

/** A transaction that reads what is stored, and stores nothing. */
const readingOnly = (store: Store): Transaction =>
  ({
    get: (table, id) => store.table(table).get(id),
    ids: (table, field, value) => store.table(table).ids({ where: { [field]: value } }),
    insert: async () => {},
    change: async (table, id, fn) => fn((await store.table(table).get(id))!)!,
    remove: async () => true,
    last: async () => 0,
    append: async () => 0,
    clear: async () => {},
  }) satisfies Transaction;

/** The job waits for so many events. */
const untilWaits = (server: TestServer, count = 1) => expect.poll(() => waits(server)).toBe(count);

describe("an event", () => {
  it("that is sent while a job waits for it is given to it, with its id and its time", async () => {
    const server = await serve((job) => job.waitFor("payment"));
    const { id } = await startJob(server.service, {});
    await untilWaits(server);

    const answer = await server.request("/events/payment", { json: { id: "p-1", data: { amount: 5 } } });
    const sent = (await answer.json()) as { at: string };

    expect(answer.status).toBe(202);
    expect((await until(server.service, id)).result).toEqual({
      id: "p-1",
      name: "payment",
      at: sent.at,
      data: { amount: 5 },
    });
    expect(await waits(server)).toBe(0);
  });

  it("that came before the job waits for it counts, unless it is older than the job", async () => {
    const { opened, open } = gate();
    const server = await serve(async (job) => {
      await job.step("other work", () => opened);
      return (await job.waitFor<{ n: number }>("payment")).data.n;
    });
    await server.sendEvent("payment", { n: 1 });
    await new Promise((resolve) => setTimeout(resolve, 5));
    const { id } = await startJob(server.service, {});
    await server.sendEvent("payment", { n: 2 });
    await server.sendEvent("payment", { n: 3 });
    open();

    expect((await until(server.service, id)).result).toBe(2);
  });

  it("is given to one of several calls that look for it at the same time", async () => {
    const store = await emptyStore();
    // As in a database: what is stored at the same moment runs side by side, and once more.
    const twice = withParts(store, {
      transaction: async (work, options) => {
        if (options?.fence) await work(readingOnly(store));
        return store.transaction(work, options);
      },
    });
    const calls = ["a", "b", "c"];
    const agent = agentWith((job) =>
      Promise.all(calls.map(async (key) => (await job.waitFor("payment", { key, since: new Date(0) })).id)),
    );
    const life = new Life(twice, agent);
    for (const id of calls) await life.runner.receive("payment", { id, data: {} });

    await life.start();

    expect(((await life.ended())!.result as string[]).toSorted()).toEqual(calls);
  });

  it("of an earlier time counts where the job says since when", async () => {
    const server = await serve(async (job) => (await job.waitFor("payment", { since: new Date(0) })).data);
    await server.sendEvent("payment", { n: 1 });
    await new Promise((resolve) => setTimeout(resolve, 5));

    expect((await server.run("worker")).result).toEqual({ n: 1 });
  });

  it("is compared by the fields that the job names, as JSON", async () => {
    const server = await serve(async (job) => {
      const where = { order: 7, "customer.id": "a", tags: ["x", { b: 1, a: 2 }] };
      return (await job.waitFor<{ hit: string }>("payment", { where })).data.hit;
    });
    const fits = { order: 7, customer: { id: "a" }, tags: ["x", { a: 2, b: 1 }] };
    const { id } = await startJob(server.service, {});
    await untilWaits(server);

    await server.sendEvent("payment", { ...fits, order: "7", hit: "no: text" });
    await server.sendEvent("payment", { order: 7, tags: fits.tags, hit: "no: a field is missing" });
    await server.sendEvent("payments", { ...fits, hit: "no: another name" });
    await server.sendEvent("payment", { ...fits, more: 1, hit: "yes" });

    expect((await until(server.service, id)).result).toBe("yes");
  });

  it("is given to each job that waits for it, and to one call of each", async () => {
    const server = await serve(async (job) => {
      const [a, b] = await Promise.all([
        job.waitFor<{ n: number }>("payment", { key: "a" }),
        job.waitFor<{ n: number }>("payment", { key: "b" }),
      ]);
      const c = await job.waitFor<{ n: number }>("payment", { key: "c" });
      return [a.data.n, b.data.n, c.data.n];
    });
    const jobs = [await startJob(server.service, {}), await startJob(server.service, {})];
    await untilWaits(server, 4);

    for (const n of [1, 2, 3]) await server.sendEvent("payment", { n });

    for (const { id } of jobs) expect((await until(server.service, id)).result).toEqual([1, 2, 3]);
  });

  it("that already exists is given to one of several calls that look for it together", async () => {
    const { opened, open } = gate();
    const server = await serve(async (job) => {
      await job.step("other work", () => opened);
      const waits = ["a", "b", "c"].map((key) => job.waitFor<{ n: number }>("payment", { key }));
      return (await Promise.all(waits)).map(({ data }) => data.n);
    });
    const { id } = await startJob(server.service, {});
    for (const n of [1, 2, 3]) await server.sendEvent("payment", { n });
    open();

    // Each call has one of them, in whatever order their transactions were stored.
    const { result } = await until(server.service, id);
    expect((result as number[]).toSorted()).toEqual([1, 2, 3]);
  });

  it("that is sent again with its id is the same, and with other data refused", async () => {
    const server = await serve(async (job) => {
      const first = await job.waitFor("payment", { key: "first" });
      const second = await job.waitFor("payment", { key: "second" });
      return [first.id, second.id];
    });
    const { id } = await startJob(server.service, {});
    const send = (data: object) => server.request("/events/payment", { json: { id: "p-1", data } });

    const first = await (await send({ a: 1, b: [2] })).json();
    const again = await (await send({ b: [2], a: 1 })).json();
    const other = await send({ a: 2 });
    await server.sendEvent("payment", {}, { id: "p-2" });

    expect(again).toEqual(first);
    expect(other.status).toBe(409);
    expect((await until(server.service, id)).result).toEqual(["p-1", "p-2"]);
    const listed = await server.request("/events?name=payment");
    expect(listed.headers.get("x-total-count")).toBe("2");
    expect(((await listed.json()) as { id: string }[]).map((one) => one.id).sort()).toEqual(["p-1", "p-2"]);
  });

  it.each([
    ["a name that is not valid", "/events/a%20b", { data: {} }],
    ["data that is no map", "/events/a", { data: [1] }],
    ["an id with a slash", "/events/a", { id: "a/b" }],
  ])("is refused with %s", async (_, path, json) => {
    const server = await serve(() => 1);

    expect((await server.request(path, { json })).status).toBe(422);
    expect((await server.request("/events/a", { json: {}, key: null })).status).toBe(401);
  });

  it("that many senders send concurrently while a job begins to wait is neither lost nor doubled", async () => {
    const server = await serve(async (job) => {
      const got: unknown[] = [];
      for (let n = 0; n < 30; n++) got.push((await job.waitFor<{ n: number }>("payment")).data.n);
      return got;
    });
    const { id } = await startJob(server.service, {});

    await Promise.all(
      Array.from({ length: 30 }, async (_, n) => {
        await new Promise((resolve) => setTimeout(resolve, n % 7));
        await server.sendEvent("payment", { n });
      }),
    );

    const { result } = await until(server.service, id);
    expect((result as number[]).toSorted((a, b) => a - b)).toEqual(Array.from({ length: 30 }, (_, n) => n));
  });
});

describe("the deadline of a wait", () => {
  it("rejects with an error that agents can catch, and is recorded", async () => {
    const server = await serve(async (job) => {
      const error = await job
        .waitFor("payment", { deadline: "2h" })
        .then(() => undefined)
        .catch((error: unknown) => error as EventTimeoutError);
      await job.step("after", () => 1);
      return { is: error instanceof EventTimeoutError, event: error?.event, message: error?.message };
    });

    const { result } = await server.run("worker");

    expect(result).toEqual({
      is: true,
      event: "payment",
      message: expect.stringMatching(/^No event "payment" that fits was received before 20/),
    });
  });

  it("is kept over a crash, and an event before it counts", async () => {
    const server = await serve(async (job) => {
      const late = await job.waitFor("late", { deadline: "1h" }).catch((error: Error) => error.name);
      const early = await job.waitFor("early", { deadline: "1h" });
      return [late, early.data];
    });
    const { id } = await startJob(server.service, {});
    await untilWaits(server);
    await server.advance("40m");
    await server.crash();
    await untilWaits(server);
    await server.advance("25m");
    await server.sendEvent("late");
    await untilWaits(server);
    await server.advance("40m");
    await server.crash();
    await server.sendEvent("early", { n: 1 });

    expect((await until(server.service, id)).result).toEqual(["EventTimeoutError", { n: 1 }]);
  });

  it("that has passed while nobody looked is not undone by a later event", async () => {
    const store = await emptyStore();
    let ahead = 0;
    const clock = () => new Date(Date.now() + ahead);
    const agent = agentWith((job) => job.waitFor("payment", { deadline: "1h" }).then(() => "paid"));
    const first = new Life(store, agent, { clock });
    await first.start();
    await expect.poll(async () => (await store.table("EventWait").list()).total).toBe(1);
    first.die();
    ahead = 2 * 3_600_000;

    // It takes events, and has not resumed the job.
    const second = new Life(store, agent, { clock });
    await second.runner.receive("payment", { data: {} });
    await second.resume();

    expect(await second.ended()).toMatchObject({
      status: "failed",
      error: expect.stringContaining('No event "payment"'),
    });
  });

  it("and an event at the same moment give one of the two, in every order", async () => {
    const server = await serve(async (job) => {
      const got: string[] = [];
      for (let n = 0; n < 20; n++)
        got.push(
          await job.waitFor("race", { deadline: "20ms" }).then(
            ({ id }) => id,
            () => "timeout",
          ),
        );
      return got;
    });
    const { id } = await startJob(server.service, {});
    let isOver = false;
    const sender = (async () => {
      for (let n = 0; !isOver; n++) {
        await server.sendEvent("race", {}, { id: `e-${n}` });
        await new Promise((resolve) => setTimeout(resolve, 19));
      }
    })();

    const { result } = await until(server.service, id);
    isOver = true;
    await sender;
    const events = (result as string[]).filter((one) => one !== "timeout");
    const calls = (await server.service.get(JOBS).log(id)).filter(({ entry }) => entry.type === "call");

    expect(new Set(events).size).toBe(events.length);
    expect(calls).toHaveLength(20);
  });

  it("starts over when the job is retried", async () => {
    const server = await serve((job) => job.waitFor("payment", { deadline: "1h" }).then(({ data }) => data));
    const { job } = await server.run("worker");

    await server.service.get(RUNNER).retry(job.id, "last_step", "test");
    await untilWaits(server);
    await server.advance("30m");
    await server.crash();
    await server.sendEvent("payment", { n: 1 });

    expect(job.status).toBe("failed");
    expect((await until(server.service, job.id)).result).toEqual({ n: 1 });
  });
});

describe("a job that waits for an event", () => {
  it("survives a crash at each recorded call, with each event given once", async () => {
    const agent = agentWith(async (job) => {
      const [first, second] = await Promise.all([
        job.waitFor<{ of: string }>("one", { key: "first" }),
        job.waitFor<{ of: string }>("two", { where: { of: "two" } }),
      ]);
      await job.step("between", () => 1);
      const third = await job.waitFor("one", { key: "third" });
      const late = await job.waitFor("never", { deadline: "1d" }).catch((error: Error) => error.name);
      return [first.id, second.data.of, third.id, late];
    });

    const { interruptions } = await crashTest(agent, { events: { one: { of: "one" }, two: { of: "two" } } });

    expect(interruptions).toBeGreaterThan(14);
  });

  it("gets an event that was stored while it was down", async () => {
    const store = await emptyStore();
    const agent = agentWith(async (job) => (await job.waitFor("payment", { where: { n: 1 } })).data);
    const first = new Life(store, agent);
    await first.start();
    await expect.poll(async () => (await store.table("EventWait").list()).total).toBe(1);
    first.die();

    const second = new Life(store, agent);
    await second.runner.receive("payment", { data: { n: 2 } });
    await second.runner.receive("payment", { data: { n: 1 } });
    await second.resume();

    expect((await second.ended())!.result).toEqual({ n: 1 });
  });

  it("finds its event again where only what it waits for was lost", async () => {
    const store = await emptyStore();
    const agent = agentWith(async (job) => {
      const first = await job.waitFor("payment", { key: "first" });
      const second = await job.waitFor("payment", { key: "second" });
      return [first.data, second.data];
    });
    const first = new Life(store, agent);
    await first.start();
    await first.runner.receive("payment", { data: { n: 1 } });
    await expect.poll(async () => (await first.entries()).some(({ type }) => type === "call")).toBe(true);
    await expect.poll(async () => (await store.table("EventWait").list()).total).toBe(1);
    await first.runner.receive("payment", { data: { n: 2 } });
    first.die();
    for (const id of await store.table("EventWait").ids()) await store.table("EventWait").remove(id);

    const second = new Life(store, agent);
    await second.resume();

    expect((await second.ended())!.result).toEqual([{ n: 1 }, { n: 2 }]);
  });

  it("waits no longer once it has ended", async () => {
    const server = await serve((job) => job.waitFor("payment", { where: { a: 1 } }));
    const { id } = await startJob(server.service, {});
    await untilWaits(server);

    await server.service.get(RUNNER).stop(id);
    await until(server.service, id);

    expect(await waits(server)).toBe(0);
    expect((await server.service.get(STORE).table("EventName").get("payment"))!.shapes).toEqual([]);
  });

  it("leaves memory, and resumes for its event, its deadline, and after a crash", async () => {
    const agent = agentWith(async (job) => {
      const first = await job.waitFor("one", { where: { n: 1 } });
      const second = await job.waitFor("one", { key: "second", deadline: "1h" });
      const third = await job
        .waitFor("one", { key: "third", deadline: "1h" })
        .catch((error: Error) => error.name);
      return [first.data, second.data, third];
    });
    await using server = await testServer({ agents: [agent], suspendAfter: 0 });
    const { id } = await startJob(server.service, {});
    const untilSuspended = (run: number) =>
      expect
        .poll(async () => {
          const { suspended, run_count } = await server.service.get(JOBS).get(id);
          return suspended !== null && suspended.wake_at !== undefined && run_count;
        })
        .toBe(run);
    await untilSuspended(1);
    await server.sendEvent("one", { n: 2 });
    expect((await server.service.get(JOBS).get(id)).suspended).toMatchObject({ wake_at: null });

    await server.sendEvent("one", { n: 1 });
    // The event before it counts for the second wait, which names no fields.
    await untilSuspended(2);
    await server.crash();
    await server.advance("2h");

    expect((await until(server.service, id)).result).toEqual([{ n: 1 }, { n: 2 }, "EventTimeoutError"]);
  });

  it("that is suspended gets an event also where the process ends right after storing it", async () => {
    const store = await emptyStore();
    const agent = agentWith(async (job) => (await job.waitFor("payment")).data);
    const first = new Life(store, agent, { suspendAfter: 0 });
    await first.start();
    await expect.poll(async () => (await first.jobs.get("job-1")).suspended).toMatchObject({ wake_at: null });
    first.hooks.on("job:changed", () => first.die());
    void first.runner.receive("payment", { data: { n: 1 } });
    await first.died;

    const second = new Life(store, agent, { suspendAfter: 0 });
    await second.resume();

    expect((await second.ended())!.result).toEqual({ n: 1 });
  });

  it("holds no slot", async () => {
    await using server = await testServer({
      agents: [
        agentWith((job) => job.waitFor("payment").then(({ data }) => data)),
        agentOf(() => 2, { name: "Other" }),
      ],
      maxConcurrentJobs: 1,
    });
    const { id } = await startJob(server.service, {});
    await untilWaits(server);

    expect((await server.run("other")).result).toBe(2);
    await server.sendEvent("payment", { n: 1 });
    expect((await until(server.service, id)).result).toEqual({ n: 1 });
  });

  it("refuses a name, a filter or a deadline that is not valid, immediately", async () => {
    const server = await serve((job) =>
      Promise.all(
        [
          () => job.waitFor("a b"),
          () => job.waitFor("a", { where: [] as never }),
          () => job.waitFor("a", { deadline: "soon" as never }),
        ].map((wait) => wait().catch((error: Error) => [error.name, error.message])),
      ),
    );

    expect((await server.run("worker")).result).toEqual([
      ["TypeError", expect.stringContaining("a name that must be 1 to 100 characters")],
      ["TypeError", expect.stringContaining("must be an object")],
      ["TypeError", expect.stringContaining('"soon" is not a duration')],
    ]);
  });
});

describe("retention", () => {
  it("removes events after their time, but none that a job has yet to take", async () => {
    const { opened, open } = gate();
    let ahead = 0;
    await using server = await testServer({
      agents: [
        agentWith(async (job) => {
          const wait = job.waitFor("kept");
          await job.step("other work", () => opened);
          return (await wait).data;
        }),
      ],
      eventRetention: "1d",
      clock: () => new Date(Date.now() + ahead),
    });
    const names = async () => (await server.service.get(STORE).table("EventName").ids()).sort();
    await server.sendEvent("old", { n: 1 });
    const { id } = await startJob(server.service, {});
    await untilWaits(server);

    ahead = 23 * 3_600_000;
    await server.service.get(RETENTION).run();
    expect(await names()).toEqual(["kept", "old"]);
    ahead = 0;
    await server.service.get(STORE).table("ReceivedEvent").insert(stored("kept"));
    const [wait] = await server.service.get(STORE).table("EventWait").ids();
    await server.service
      .get(STORE)
      .table("EventWait")
      .change(wait!, (one) => ({ ...one, event: "kept/e" }));
    ahead = 25 * 3_600_000;
    // The clock has jumped: it is trusted only after a while, unless the store was written to since.
    await startJob(server.service, { id: "later" });
    await server.service.get(RETENTION).run();

    expect(await names()).toEqual(["kept"]);
    expect(await server.service.get(STORE).table("ReceivedEvent").ids()).toEqual(["kept/e"]);
    open();
    await server.service.get(RUNNER).stop(id);
  });
});

function stored(name: string) {
  return { id: `${name}/e`, name, event_id: "e", n: 1, created_at: new Date().toISOString(), data: {} };
}

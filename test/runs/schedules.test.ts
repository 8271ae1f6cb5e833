// @long
import {
  type AgentDefinition,
  createServer,
  type ScheduleDefinition,
  type ServerOptions,
} from "agent-control-service";
import { JOBS, RUNNER, STORE } from "agent-control-service/plugin";
import { createMemoryStore, type TestServer, testServer } from "agent-control-service/testing";
import { expect, onTestFinished, test, vi } from "vitest";
import { isTerminal } from "../../src/core/models/entity-status.ts";
import type { StoredJob } from "../../src/core/models/job.ts";
import type { Store, Transaction } from "../../src/core/store/store.ts";
import { TestClock } from "../../src/testing/test-clock.ts";
import { signIn } from "../admin/_sign-in.ts";
import { agentOf, gate } from "./_agent.ts";
import { startJob, until } from "./_jobs.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const T0 = Date.parse("2026-05-01T00:30:00.000Z");

const worker = agentOf(({ fields }) => fields.n);
const hourly = (more: Partial<ScheduleDefinition> = {}): ScheduleDefinition => ({
  id: "hourly",
  cron: "0 * * * *",
  agent: worker,
  ...more,
});

async function jobsOf({ service }: Pick<TestServer, "service">): Promise<StoredJob[]> {
  const { items } = await service.get(JOBS).list({ sort: "created_at", limit: 10_000 });
  return items;
}

const timesOf = (jobs: readonly StoredJob[]) => jobs.map(({ schedule }) => schedule!.at.slice(11, 16));

/** A schedule as `GET /schedules/{id}` returns it. */
async function show(server: TestServer, id = "hourly"): Promise<Record<string, unknown>> {
  return (await (await server.request(`/schedules/${id}`)).json()) as Record<string, unknown>;
}

const stateOf = (server: TestServer) => server.service.get(STORE).table("Schedule").get("hourly");

/** Commits a transaction of a store, or dies. */
type Commit = <T>(store: Store, work: (tx: Transaction) => Promise<T>) => Promise<T>;

/** Lives of a service over one store, each at a fixed time of its own. */
function lives(options: Partial<ServerOptions> & { agents?: AgentDefinition[] } = {}) {
  let store: Promise<Store> | undefined;
  return async (at: number, more: Partial<ServerOptions> = {}, transaction?: Commit) => {
    const clock = new TestClock(at - Date.now());
    clock.hold();
    while (clock.now().getTime() < at) clock.skip(at);
    const server = await testServer({
      agents: [worker],
      schedules: [hourly()],
      ...options,
      ...more,
      clock: clock.now,
      startTimer: clock.startTimer,
      store: async (context) => {
        store ??= createMemoryStore(context);
        const kept = wrap(await store);
        const commit: Store["transaction"] = (work, options) =>
          transaction ? transaction(kept, work) : kept.transaction(work, options);
        return { ...kept, transaction: commit, close: async () => {} };
      },
    });
    const end = () => server[Symbol.asyncDispose]();
    onTestFinished(end);
    return { ...server, clock, end };
  };
}

/** The store with its methods bound, so that a copy can have another end. */
function wrap(store: Store): Store {
  return {
    table: store.table.bind(store),
    log: store.log.bind(store),
    transaction: store.transaction.bind(store),
    health: store.health.bind(store),
    stats: store.stats.bind(store),
    close: store.close.bind(store),
    now: store.now.bind(store),
    hints: store.hints,
  };
}

test("each planned time starts one job, with the schedule's fields and its time", async () => {
  await using server = await testServer({
    agents: [worker],
    schedules: [{ cron: "0 * * * *", agent: "worker", fields: { n: 7 }, instructions: { max_cost: 2 } }],
  });

  await server.advance("3h");

  const jobs = await jobsOf(server);
  expect(jobs).toHaveLength(3);
  expect(jobs.map(({ status, result }) => [status, result])).toEqual(Array(3).fill(["completed", 7]));
  expect(new Set(jobs.map(({ schedule }) => schedule!.at)).size).toBe(3);
  for (const { id, schedule, job_context } of jobs) {
    expect(schedule).toMatchObject({ id: "worker", at: expect.stringMatching(/:00:00\.000Z$/) });
    expect(id).toBe(`worker-${schedule!.at.replace(/[-:]|\.000/g, "")}`);
    expect(job_context).toMatchObject({
      started_by: "schedule worker",
      job_instructions: { max_cost: 2, stop_on_error: true },
    });
  }
  const shown = await show(server, "worker");
  expect(shown).toMatchObject({
    ...{ id: "worker", agent: "worker", cron: "0 * * * *", timezone: "UTC", fields: { n: 7 } },
    ...{ overlap: "allow", catch_up: "1d", paused: false, problem: null },
    last: { at: jobs[2]!.schedule!.at, outcome: "started" },
    last_job: { id: jobs[2]!.id, status: "completed" },
  });
  expect(Date.parse(shown.next as string) - Date.parse(jobs[2]!.schedule!.at)).toBe(HOUR);
  const inAdmin = await (await server.request("/admin/api/server")).json();
  expect(inAdmin).toMatchObject({ schedules: [shown] });
  const cookie = await signIn(server, "Tester");
  const page = await (await server.request("/admin/schedules", { key: null, headers: { cookie } })).text();
  expect(page).toContain(`title="${(shown.next as string).slice(0, 19).replace("T", " ")} UTC"`);
});

test("a process that ends around planned times loses none and doubles none", async () => {
  await using server = await testServer({ agents: [worker], schedules: [hourly({ cron: "* * * * *" })] });

  for (let round = 0; round < 12; round++) {
    await server.advance(round % 2 ? "60s" : "90s");
    await server.crash();
  }
  await server.advance("1s");

  const times = (await jobsOf(server)).map(({ schedule }) => Date.parse(schedule!.at)).sort();
  expect(times.length).toBeGreaterThanOrEqual(14);
  expect(times.slice(1).map((at, n) => at - times[n]!)).toEqual(Array(times.length - 1).fill(MINUTE));
});

test("a process that ends just before or after any write of planned times starts their jobs once", async () => {
  for (const commits of [false, true]) {
    for (let last = 0; ; last++) {
      const live = lives();
      await (await live(T0)).end();
      let [writes, isDead] = [0, false];
      let die: (error: Error) => void = () => {};
      const never = new Promise<never>((_, reject) => {
        die = reject;
      });
      never.catch(() => {});
      const dying = await live(T0 + 2 * HOUR, {}, async (store, work) => {
        if (isDead) return never;
        const { result, isCounted } = await store
          .transaction(async (tx) => {
            const tables: string[] = [];
            const result = await work(tracked(tx, tables));
            const isCounted = tables.includes("Schedule");
            if (!isCounted || writes++ < last) return { result, isCounted: false };
            isDead = true;
            if (!commits) throw new Error("died");
            return { result, isCounted };
          })
          .catch(() => never);
        return isCounted ? never : result;
      });
      await expect.poll(async () => isDead || (await jobsOf(dying)).length === 2).toBe(true);
      const ended = dying.end();

      const next = await live(T0 + 2 * HOUR);
      await expect.poll(async () => (await show(next)).next).toBe("2026-05-01T03:00:00.000Z");
      expect(timesOf(await jobsOf(next)).sort(), `${last} writes`).toEqual(["01:00", "02:00"]);
      await next.end();
      // What the dead process still waits for is over too.
      die(new Error("died"));
      await ended;
      if (!isDead) break;
      expect(last).toBeLessThan(10);
    }
  }
});

/** A transaction that notes which tables it changes. */
function tracked(tx: Transaction, tables: string[]): Transaction {
  const note =
    (method: "insert" | "change") =>
    (table: never, ...rest: never[]) => {
      tables.push(table);
      return (tx[method] as (...given: never[]) => never)(table, ...rest);
    };
  return {
    ...{ get: tx.get.bind(tx), ids: tx.ids.bind(tx), remove: tx.remove.bind(tx) },
    ...{ append: tx.append.bind(tx), last: tx.last.bind(tx), clear: tx.clear.bind(tx) },
    insert: note("insert") as Transaction["insert"],
    change: note("change") as Transaction["change"],
  };
}

test("times that passed while the service was down are caught up as the schedule says", async () => {
  const cases: [ScheduleDefinition["catchUp"], number, string[]][] = [
    [undefined, 5 * HOUR, ["01:00", "02:00", "03:00", "04:00", "05:00"]],
    ["2h", 5 * HOUR, ["04:00", "05:00"]],
    ["20m", 5 * HOUR, ["05:00"]],
    ["latest", 5 * HOUR, ["05:00"]],
    ["none", 5 * HOUR, []],
    ["none", 30.5 * MINUTE, ["01:00"]],
    ["all", 50 * HOUR, Array.from({ length: 50 }, (_, n) => `${String((n + 1) % 24).padStart(2, "0")}:00`)],
  ];
  for (const [catchUp, down, expected] of cases) {
    const live = lives({ schedules: [hourly({ catchUp })] });
    await (await live(T0)).end();
    const later = await live(T0 + down);

    const next = T0 + down + HOUR / 2 - ((T0 + down + HOUR / 2) % HOUR) + (down % HOUR ? HOUR : 0);
    await expect
      .poll(async () => (await show(later)).next, { message: String(catchUp) })
      .toBe(new Date(next).toISOString());
    expect(timesOf(await jobsOf(later)), String(catchUp)).toEqual(expected);
    const { last } = await show(later);
    if (catchUp === "none" && expected.length === 0)
      expect(last).toMatchObject({ outcome: "missed", at: "2026-05-01T05:00:00.000Z" });
    expect(later.logs.some((line) => line.includes("too late"))).toBe(expected.length < down / HOUR - 1);
    await later.end();
    const again = await live(T0 + down);
    expect(await jobsOf(again)).toHaveLength(expected.length);
    await again.end();
  }
});

test("a schedule that is new, or whose times were changed, or that was gone for a while, starts now", async () => {
  const live = lives();
  await (await live(T0, { schedules: [] })).end();
  const fresh = await live(T0 + 5 * HOUR);
  expect(await jobsOf(fresh)).toEqual([]);
  await fresh.end();

  const changed = await live(T0 + 10 * HOUR, { schedules: [hourly({ cron: "*/5 * * * *" })] });
  expect(await jobsOf(changed)).toEqual([]);
  expect(await show(changed)).toMatchObject({ next: "2026-05-01T10:35:00.000Z" });
  await changed.end();
  const otherZone = await live(T0 + 20 * HOUR, {
    schedules: [hourly({ cron: "*/5 * * * *", timezone: "Asia/Tokyo" })],
  });
  expect(await jobsOf(otherZone)).toEqual([]);
  await otherZone.end();

  const without = await live(T0 + 21 * HOUR, { schedules: [] });
  expect(await stateOf(without)).toMatchObject({ pattern: null });
  expect(await (await without.request("/schedules")).json()).toEqual([]);
  await without.end();
  const back = await live(T0 + 30 * HOUR, {
    schedules: [hourly({ cron: "*/5 * * * *", timezone: "Asia/Tokyo" })],
  });
  expect(await jobsOf(back)).toEqual([]);
  expect(await show(back)).toMatchObject({ next: "2026-05-02T06:35:00.000Z" });
  await back.end();

  const fields = await live(T0 + 30 * HOUR + 6 * MINUTE, {
    schedules: [hourly({ cron: "*/5 * * * *", timezone: "Asia/Tokyo", fields: { n: 3 }, overlap: "queue" })],
  });
  await expect.poll(async () => timesOf(await jobsOf(fields))).toEqual(["06:35"]);
});

test("a clock that is set back starts nothing twice, and one that was far ahead does not stop a schedule", async () => {
  const live = lives();
  await (await live(T0)).end();
  const ahead = await live(T0 + 3 * HOUR);
  await expect.poll(async () => timesOf(await jobsOf(ahead))).toEqual(["01:00", "02:00", "03:00"]);
  await ahead.end();

  const back = await live(T0 + HOUR);
  expect(await show(back)).toMatchObject({ next: "2026-05-01T04:00:00.000Z" });
  expect(await jobsOf(back)).toHaveLength(3);
  await back.end();

  const wrong = await live(T0 + 400 * 24 * HOUR, { schedules: [hourly({ catchUp: "latest" })] });
  await expect.poll(async () => await jobsOf(wrong)).toHaveLength(4);
  await wrong.end();
  const right = await live(T0 + 5 * HOUR, { schedules: [hourly({ catchUp: "latest" })] });
  expect(await show(right)).toMatchObject({ next: "2026-05-01T06:00:00.000Z" });
  expect(right.logs.join("\n")).toContain("set back by more than a day");
});

test("a planned time that comes again after its job was deleted starts it no second time, and does not stop the schedule", async () => {
  const live = lives();
  await (await live(T0)).end();
  const first = await live(T0 + 3 * HOUR);
  await expect.poll(async () => await jobsOf(first)).toHaveLength(3);
  await first.service.get(RUNNER).remove("hourly-20260501T020000Z", { kind: "key" });
  await first.end();
  const latest = { schedules: [hourly({ catchUp: "latest" })] };
  const wrong = await live(T0 + 53 * HOUR, latest);
  await expect.poll(async () => await jobsOf(wrong)).toHaveLength(3);
  await wrong.end();
  await (await live(T0 + HOUR)).end();

  const again = await live(T0 + 4 * HOUR);

  await expect.poll(async () => (await stateOf(again))?.decided_until).toBe("2026-05-01T04:00:00.000Z");
  expect(await show(again)).toMatchObject({ problem: null, next: "2026-05-01T05:00:00.000Z" });
  expect(timesOf(await jobsOf(again))).not.toContain("02:00");
});

test("a clock that jumps forward, or a machine that slept, is noticed without a timer", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  const live = lives();
  const server = await live(T0);

  // The timer of the next time does not fire: it counts the time that the machine was awake.
  server.clock.stop();
  server.clock.skip(T0 + 2 * HOUR);
  await vi.advanceTimersByTimeAsync(31_000);

  await expect.poll(async () => timesOf(await jobsOf(server))).toEqual(["01:00", "02:00"]);
});

test("a job that the store already has is not started twice where the schedule's row was lost", async () => {
  const live = lives();
  await (await live(T0)).end();
  const first = await live(T0 + 2 * HOUR);
  await expect.poll(async () => timesOf(await jobsOf(first))).toEqual(["01:00", "02:00"]);
  await first.service
    .get(STORE)
    .table("Schedule")
    .change("hourly", (state) => ({
      ...state,
      decided_until: new Date(T0).toISOString(),
    }));
  await first.end();

  const again = await live(T0 + 3 * HOUR);

  await expect.poll(async () => timesOf(await jobsOf(again))).toEqual(["01:00", "02:00", "03:00"]);
});

test("a job of somebody else that has the id of a planned one takes nothing from the schedule", async () => {
  const live = lives();
  const first = await live(T0);
  await startJob(first.service, { id: "hourly-20260501T010000Z" });
  await first.end();

  const later = await live(T0 + HOUR);

  await expect.poll(async () => (await jobsOf(later)).filter(({ schedule }) => schedule).length).toBe(1);
  expect((await jobsOf(later)).length).toBe(2);
});

/** A service whose jobs wait until they are let go, or stopped. */
async function slow(overlap: ScheduleDefinition["overlap"], more: Partial<ScheduleDefinition> = {}) {
  const opened: (() => void)[] = [];
  const agent = agentOf(async ({ job, signal }) => {
    const one = gate();
    opened.push(one.open);
    await job.step("wait", () => Promise.race([one.opened, aborted(signal)]));
  });
  const server = await testServer({
    agents: [agent],
    schedules: [hourly({ agent, overlap, ...more })],
    ...{ maxConcurrentJobs: 10, shutdownGrace: 0 },
  });
  onTestFinished(() => server[Symbol.asyncDispose]());
  return { server, opened, statuses: async () => (await jobsOf(server)).map(({ status }) => status) };
}

const aborted = (signal: AbortSignal) =>
  new Promise<void>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));

test("jobs of a schedule overlap unless it says otherwise", async () => {
  const { server, statuses } = await slow(undefined);
  await server.advance("2h");
  expect(await statuses()).toEqual(["in_progress", "in_progress"]);
});

test("with skip, a time is skipped while an earlier job has not ended", async () => {
  const { server, opened, statuses } = await slow("skip");
  await server.advance("3h");

  expect(await statuses()).toEqual(["in_progress"]);
  expect(await show(server)).toMatchObject({
    last: { outcome: "skipped" },
    last_job: { status: "in_progress" },
  });
  opened[0]!();
  await expect.poll(statuses).toEqual(["completed"]);
  await server.advance("1h");
  expect(await statuses()).toEqual(["completed", "in_progress"]);
});

test("with queue, each time starts once the earlier job has ended, also over a crash", async () => {
  const { server, opened, statuses } = await slow("queue");
  await server.advance("3h");

  expect(await statuses()).toEqual(["in_progress"]);
  const [job] = await jobsOf(server);
  expect(await show(server)).toMatchObject({ problem: `Waits for the end of job "${job!.id}"` });
  await server.crash();
  await expect.poll(() => opened.length).toBe(2);
  expect(await statuses()).toEqual(["in_progress"]);
  for (let n = 1; n < 3; n++) {
    opened[n]!();
    await expect.poll(statuses).toEqual([...Array(n).fill("completed"), "in_progress"]);
    await expect.poll(() => opened.length).toBe(n + 2);
  }
  const times = (await jobsOf(server)).map(({ schedule }) => Date.parse(schedule!.at));
  expect(times.map((at) => at - times[0]!)).toEqual([0, HOUR, 2 * HOUR]);
  opened[3]!();
  await expect.poll(statuses).toEqual(["completed", "completed", "completed"]);
});

test("with cancel, an earlier job is stopped before the next one starts", async () => {
  const { server, statuses } = await slow("cancel");
  await server.advance("1h");
  await server.advance("1h");

  await expect.poll(statuses).toEqual(["cancelled", "in_progress"]);
  expect((await jobsOf(server))[0]).toMatchObject({ stop_reason: "stopped" });
});

test("where the queue is full, a planned job waits until there is room, and is not lost", async () => {
  const opened = gate();
  const agent = agentOf(({ job }) => job.step("wait", () => opened.opened));
  await using server = await testServer({
    agents: [agent],
    schedules: [hourly({ agent })],
    maxConcurrentJobs: 1,
    maxQueuedJobs: 1,
  });
  await startJob(server.service, { id: "running" });
  await startJob(server.service, { id: "queued" });

  await server.advance("1h");
  expect(await show(server)).toMatchObject({
    last: null,
    problem: expect.stringContaining("already queued"),
  });
  opened.open();
  await until(server.service, "queued");
  await server.advance("1m");

  await expect
    .poll(async () => await show(server))
    .toMatchObject({ last: { outcome: "started" }, problem: null });
  // On a slow machine the next planned time may have come, too.
  expect((await jobsOf(server)).filter(({ schedule }) => schedule)).not.toHaveLength(0);
});

test("a paused service starts nothing, and then what its schedules catch up", async () => {
  const live = lives();
  await (await live(T0)).end();
  const server = await live(T0 + 2 * HOUR, { paused: true });

  expect(await jobsOf(server)).toEqual([]);
  server.service.get(RUNNER).unpause();

  await expect.poll(async () => timesOf(await jobsOf(server))).toEqual(["01:00", "02:00"]);
});

test("a schedule that a person pauses plans nothing until it is resumed, also over a crash", async () => {
  await using server = await testServer({ agents: [worker], schedules: [hourly()] });
  const post = (action: string) => server.request(`/schedules/hourly/${action}`, { method: "POST" });

  expect(await (await post("pause")).json()).toMatchObject({ paused: true, next: null });
  await server.advance("3h");
  await server.crash();
  await server.advance("3h");
  expect(await jobsOf(server)).toEqual([]);
  expect(await (await post("resume")).json()).toMatchObject({ paused: false, next: expect.any(String) });
  expect(await jobsOf(server)).toEqual([]);
  await server.advance("1h");
  expect(await jobsOf(server)).toHaveLength(1);

  const run = await post("run");
  expect(run.status).toBe(202);
  const { id } = (await run.json()) as { id: string };
  expect(await until(server.service, id)).toMatchObject({ status: "completed", schedule: { id: "hourly" } });
  expect(await show(server)).toMatchObject({ last_job: { id } });
  const audit = await (await server.request("/admin/api/audit")).json();
  expect(JSON.stringify(audit)).toMatch(/schedule\.run.*schedule\.resume.*schedule\.pause/s);
  expect((await server.request("/schedules/other/run", { method: "POST" })).status).toBe(404);
});

test("a job that waits for an answer is not driven on by the times of a schedule", async () => {
  const asker = agentOf(async ({ job }) =>
    (await job.openCase({ id: "a", name: "A" })).ask("ok", { question: "OK?", fields: [] }),
  );
  await using server = await testServer({ agents: [asker], schedules: [hourly({ agent: asker })] });

  await expect(server.run(asker)).rejects.toThrow('Nobody answers "OK?"');
  expect((await jobsOf(server)).filter(({ status }) => isTerminal(status))).toEqual([]);
});

test("a wrong schedule is refused when the service starts, by its name", async () => {
  const strict = agentOf(() => null, { name: "Strict" });
  const other = agentOf(() => null, { name: "Other" });
  const refusal = async (...schedules: unknown[]) => {
    await using service = createServer({
      agents: [strict, other],
      schedules: schedules as ScheduleDefinition[],
      ...{ store: createMemoryStore, dataDir: "never-made", logTo: () => {} },
    });
    return service.ready().then(
      () => "accepted",
      (error: Error) => error.message,
    );
  };
  const base = { cron: "0 3 * * *", agent: strict };

  expect(await refusal({ ...base, cron: "61 * * * *" })).toBe(
    'Schedule "strict": the cron pattern "61 * * * *" is invalid: Invalid value for minute: 61',
  );
  expect(await refusal({ ...base, cron: "0 0 31 2 *" })).toContain("has no time that ever comes");
  expect(await refusal({ ...base, timezone: "Paris" })).toContain('"Paris", which is unknown');
  expect(await refusal({ ...base, agent: "nobody" })).toBe(
    'Schedule "nobody" is for the agent "nobody", which is not on this service: strict, other',
  );
  expect(await refusal({ ...base, fields: { n: "many" } })).toMatch(
    /^Schedule "strict" has fields that agent "strict" does not accept: n .*/,
  );
  expect(await refusal({ ...base, fields: { m: 1 } })).toContain("m is not a field");
  expect(await refusal(base, { ...base, cron: "0 4 * * *" })).toContain("is defined twice");
  expect(await refusal({ ...base, overlap: "wait" })).toContain("schedules: [0].overlap");
  expect(await refusal({ ...base, catchUp: "some" })).toContain("schedules: [0].catchUp must be a duration");
  expect(await refusal({ ...base, id: "a/b" })).toContain("schedules: [0].id must be");
  expect(await refusal({ ...base, every: "1h" })).toContain("every");
  expect(await refusal({ ...base, agent: undefined })).toContain("[0].agent must be an agent or its slug");
});

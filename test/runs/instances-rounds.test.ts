import { type AgentDefinition, defineAgent } from "agent-control-service";
import { expect, onTestFinished, test } from "vitest";
import { isTerminal } from "../../src/core/models/entity-status.ts";
import type { StoredJob } from "../../src/core/models/job.ts";
import type { Store } from "../../src/core/store/store.ts";
import { agentOf, gate } from "./_agent.ts";
import { jobContext } from "./_jobs.ts";
import { emptyStore, JOB, Life, withParts } from "./_lives.ts";

/** So short that a test can wait for it, and so long that a busy machine does not miss it. A round comes each second. */
const SHORT = { beat: 50, dead: 1000, giveUp: 700, look: 20 };
const WAIT = { timeout: 15_000 };

async function join(
  store: Store,
  agents: AgentDefinition | readonly AgentDefinition[],
  options: { most?: number } = {},
): Promise<Life> {
  const life = new Life(store, agents, { shared: SHORT, ...options });
  await life.resume();
  onTestFinished(() => void life.runner.close(0));
  return life;
}

/** Stores what an instance stored that died right after. */
const change = (store: Store, id: string, patch: Partial<StoredJob>) =>
  store.table("Job").change(id, (job) => ({ ...job, run_count: job.run_count + 1, owner: null, ...patch }));

async function ended(life: Life, id = JOB): Promise<StoredJob> {
  await expect.poll(async () => isTerminal((await life.jobs.get(id)).status), WAIT).toBe(true);
  return life.jobs.get(id);
}

const child = (name = "Child") =>
  defineAgent({
    ...{ name, version: "1.0.0" },
    methods: {
      job_start: {
        run: ({ job, signal }) =>
          job.step(
            "work",
            () => new Promise((_, fail) => signal.addEventListener("abort", () => fail(signal.reason))),
          ),
      },
    },
  });

test("children are stopped where the instance died that stored the end of their parent; one that a person runs again is not", async () => {
  const store = await emptyStore();
  const parent = agentOf(async ({ job }) => {
    const one = await job.start("child");
    await one.result();
  });
  const a = await join(store, [parent, child()]);
  await a.start();
  const find = async () => (await a.jobs.list({ where: { parent_id: JOB } })).items[0];
  await expect.poll(async () => (await find())?.status).toBe("in_progress");
  const { id } = (await find())!;

  const finished_at = new Date().toISOString();
  await change(store, JOB, { status: "failed", stop_reason: "error", finished_at });

  expect(await ended(a, id)).toMatchObject({ status: "cancelled", stop_reason: "parent_ended" });
  await a.runner.retry(id, "start", "operator" as never);
  await expect.poll(async () => (await a.jobs.get(id)).status).toBe("in_progress");
  await new Promise((resolve) => setTimeout(resolve, 2500));
  expect((await a.jobs.get(id)).status).toBe("in_progress");
});

test("a job of a living instance that has no run there is claimed again: it resumes, or its stop is stored", async () => {
  const store = await emptyStore();
  const cleaned: string[] = [];
  const agent = agentOf(({ job }) => job.step("work", () => "done"), {
    methods: { job_stop: { run: ({ job }) => void cleaned.push(job.id) } },
  });
  const a = await join(store, agent);
  for (const id of ["resumes", "stops"]) {
    await a.runner.start("worker", { job_context: jobContext(id), job_fields: {} });
    await ended(a, id);
  }

  const left = { finished_at: null, owner: a.runner.instance! };
  await change(store, "resumes", { status: "in_progress", ...left });
  await change(store, "stops", { status: "cancelling", ...left });

  expect(await ended(a, "resumes")).toMatchObject({ status: "completed", result: "done" });
  expect(await ended(a, "stops")).toMatchObject({ status: "cancelled", stop_reason: "stopped" });
  expect(cleaned).toEqual(["stops"]);
});

test("a job whose start is still on its way to its instance at a round keeps its run", async () => {
  const store = await emptyStore();
  const round = gate();
  let isStarting = false;
  const late = withParts(store, {
    async transaction(work, options) {
      const isStart = isStarting;
      const result = await store.transaction(work, options);
      if (isStart && (await store.table("Job").get(JOB))) await round.opened;
      return result;
    },
    table: ((name: "Job") => {
      const table = store.table(name);
      const list: typeof table.list = async (query) => {
        const found = await table.list(query);
        // The search for own jobs without a run has read it.
        const isSearch = name === "Job" && query?.where?.owner !== undefined && !query.sort;
        if (isSearch && found.items.some(({ id }) => id === JOB)) setImmediate(() => round.open());
        return found;
      };
      return { ...table, list };
    }) as Store["table"],
  });
  const runs: string[] = [];
  const a = await join(
    late,
    agentOf(({ job }) => void runs.push(job.id)),
  );

  isStarting = true;
  const started = a.start();
  await round.opened;
  isStarting = false;
  await started;

  expect(await ended(a)).toMatchObject({ status: "completed", run_count: 1 });
  expect(runs).toEqual([JOB]);
  expect(a.logs.filter((line) => line.includes("claimed again"))).toEqual([]);
});

test("a job that other code held is tried by the instances whose code fits, also by those that were there before", async () => {
  const store = await emptyStore();
  const [begun, held] = [gate(), gate()];
  const agent = agentOf(async ({ job }) => {
    await job.step("first", () => {});
    return job.step("second", async () => {
      begun.open();
      await held.opened;
      return "done";
    });
  });
  const a = await join(store, agent);
  const other = await join(store, child("Other"));
  await a.start();
  await begun.opened;
  held.open();
  const { agent_version, code_fingerprint } = await ended(a);

  const code = { version: agent_version ?? null, fingerprint: code_fingerprint ?? null };
  await store.transaction(async (tx) => {
    const at = new Date().toISOString();
    await tx.append("Run", JOB, { type: "mark", mark: "held", at });
    await tx.change("Job", JOB, (job) => ({
      ...job,
      ...{ status: "awaiting", stop_reason: "code_changed", finished_at: null, run_count: job.run_count + 1 },
      held: { at, message: "", expected: "", found: null, recorded: code, present: code },
    }));
  });

  expect(await ended(other)).toMatchObject({ status: "completed", result: "done", held: null });
});

test("of instances that find together that nobody hosts the agent of a job, one says so", async () => {
  const store = await emptyStore();
  const a = await join(
    store,
    agentOf(({ job }) => job.step("work", () => new Promise(() => {}))),
    { most: 1 },
  );
  const both = gate();
  let readers = 0;
  /** Its first read of the job's log ends when the other one has read it, too. */
  const patient = () => {
    let isFirst = true;
    return withParts(store, {
      log: ((name: "Run") => {
        const log = store.log(name);
        const read: typeof log.read = async (key, range) => {
          const lines = await log.read(key, range);
          if (name !== "Run" || key !== JOB || !isFirst) return lines;
          isFirst = false;
          if (++readers === 2) both.open();
          await both.opened;
          return lines;
        };
        return { ...log, read, last: log.last.bind(log) };
      }) as Store["log"],
    });
  };
  for (let n = 0; n < 2; n++) await join(patient(), child("Other"));
  await a.runner.start("worker", { job_context: jobContext("before"), job_fields: {} });
  // It waits for its first turn.
  await a.start();
  a.die();

  await both.opened;
  const marks = async () =>
    (await store.log("Run").read(JOB)).filter(
      ({ entry }) => entry.type === "mark" && entry.mark === "waiting_for_agent",
    );
  await expect.poll(marks, WAIT).not.toEqual([]);
  // Of both there has been another round since.
  await new Promise((resolve) => setTimeout(resolve, 1200));
  expect(await marks()).toHaveLength(1);
  expect((await store.table("Job").get(JOB))?.status).toBe("stopped");
});

test("a job whose agent no living instance hosts says so, and resumes when one joins", async () => {
  const store = await emptyStore();
  const [begun, held] = [gate(), gate()];
  const agent = (isFirst: boolean) =>
    agentOf(({ job }) =>
      job.step<unknown>("work", () => {
        begun.open();
        return isFirst ? held.opened : "done";
      }),
    );
  const a = await join(store, agent(true));
  const [b, c] = [await join(store, child("Other")), await join(store, child("Other"))];
  await a.start();
  await begun.opened;
  a.die();

  const marks = async () =>
    (await b.entries()).filter((entry) => entry.type === "mark" && entry.mark === "waiting_for_agent");
  await expect.poll(marks, WAIT).toHaveLength(1);
  expect(await b.jobs.get(JOB)).toMatchObject({ status: "in_progress", owner: null });
  // The third one notices by itself that the first is gone.
  await expect
    .poll(async () => c.runner.describe(await c.jobs.get(JOB)).message, WAIT)
    .toBe("The job waits for its agent, which no living instance hosts");
  await new Promise((resolve) => setTimeout(resolve, 1200));
  expect(await marks()).toHaveLength(1);

  const d = await join(store, agent(false));
  expect(await ended(d)).toMatchObject({ status: "completed", result: "done" });
});

test("a job that was held as its parameters could not be read resumes at an instance that can read them", async () => {
  const store = await emptyStore();
  const a = await join(
    store,
    agentOf(() => new Promise(() => {})),
  );
  await a.start();
  await expect.poll(async () => (await a.jobs.get(JOB)).status).toBe("in_progress");
  a.die();
  await change(store, JOB, { status: "awaiting", stop_reason: "unreadable_parameters" });

  const b = await join(
    store,
    agentOf(async () => "done"),
  );

  expect(await ended(b)).toMatchObject({ status: "completed", stop_reason: null, result: "done" });
});

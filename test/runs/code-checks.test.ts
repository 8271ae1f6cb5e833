import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type AgentDefinition, defineAgent, type JobHandle } from "agent-control-service";
import { AGENTS, JOBS, STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, onTestFinished, test } from "vitest";
import { agentOf } from "./_agent.ts";
import { jobContext } from "./_jobs.ts";
import { emptyStore, JOB, Life } from "./_lives.ts";

/** A round comes each second. */
const SHORT = { beat: 50, dead: 1000, giveUp: 700, look: 20 };
const WAIT = { timeout: 15_000 };

/** What a job may wait for while it is not in memory. */
const WAITS = {
  time: (job: JobHandle) => job.sleep("30d"),
  event: (job: JobHandle) => job.waitFor("payment"),
  deadline: (job: JobHandle) => job.waitFor("payment", { deadline: "30d" }),
  answer: async (job: JobHandle) => {
    const item = await job.openCase({ id: `${job.id}-case`, name: "Invoice 42" });
    return item.ask("approve", { question: "Pay it?", fields: [{ name: "text", required: true }] });
  },
  child: async (job: JobHandle, name: string) => (await job.start(`time-${name}`)).result(),
} as const;
type Kind = keyof typeof WAITS;

/** An agent for each kind, which makes a step first. */
const agentsOf = (name: string, step: string): AgentDefinition[] =>
  Object.entries(WAITS).map(([kind, wait]) =>
    agentOf(
      async ({ job }) => {
        await job.step(step, () => 1);
        await wait(job, name);
      },
      { name: `${kind} ${name}` },
    ),
  );

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), "svc-codes-"));
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

/** A service on a folder, under code with a name. */
const open = (dataDir: string, agents: AgentDefinition[], build: string) =>
  testServer({ agents, build, store: undefined, dataDir, suspendAfter: 0 });

const isSuspended = async ({ service }: TestServer, id: string) =>
  Boolean((await service.get(JOBS).find(id))?.suspended);

async function start(server: TestServer, slug: string, id: string): Promise<void> {
  await server.request(`/agents/${slug}/jobs`, { json: { job_context: jobContext(id) } });
  await expect.poll(() => isSuspended(server, id), WAIT).toBe(true);
}

test("after a start with other code of the same version, suspended jobs that do not fit are held, whatever they wait for, and the others are not touched", async () => {
  const dataDir = folder();
  const kinds = Object.keys(WAITS) as Kind[];
  const before = await open(dataDir, [...agentsOf("fetch", "fetch"), ...agentsOf("pay", "pay")], "one");
  for (const kind of kinds)
    for (const name of ["fetch", "pay"]) await start(before, `${kind}-${name}`, `${kind}-${name}`);
  const fits = kinds.map((kind) => `${kind}-pay`);
  const all = await Promise.all(fits.map((id) => before.service.get(JOBS).get(id)));
  await before[Symbol.asyncDispose]();

  await using after = await open(dataDir, [...agentsOf("fetch", "load"), ...agentsOf("pay", "pay")], "two");

  for (const kind of kinds) {
    const job = () => after.service.get(JOBS).get(`${kind}-fetch`);
    await expect.poll(job, WAIT).toMatchObject({
      ...{ status: "awaiting", stop_reason: "code_changed", suspended: null },
      held: { expected: 'step "fetch"', found: 'step "load"' },
    });
  }
  // The child of one of them, too.
  const held = async () => {
    const { items } = (await (await after.request("/attention")).json()) as { items: Needed[] };
    return items.reduce((sum, { kind, count }) => sum + (kind === "held" ? count : 0), 0);
  };
  await expect.poll(held, WAIT).toBe(kinds.length + 1);
  await expect
    .poll(async () => (await notesOf(after)).map(({ id, is_done }) => `${id} ${is_done}`).sort(), WAIT)
    .toEqual(kinds.flatMap((kind) => [`${kind}-fetch true`, `${kind}-pay true`]).sort());
  expect(await Promise.all(fits.map((id) => after.service.get(JOBS).get(id)))).toEqual(all);
});

interface Needed {
  readonly kind: string;
  readonly count: number;
}

const notesOf = async ({ service }: TestServer) =>
  (await service.get(STORE).table("CheckedCode").list({ limit: Number.POSITIVE_INFINITY })).items;

test("suspended jobs are read once after a change of the code, and not by a start with the same", async () => {
  const dataDir = folder();
  const agent = agentOf(({ job }) => job.waitFor("payment"));
  const first = await open(dataDir, [agent], "one");
  for (let n = 0; n < 40; n++) await start(first, "worker", `job-${n}`);
  await first[Symbol.asyncDispose]();
  const readsUnder = async (build: string) => {
    const server = await open(dataDir, [agent], build);
    const { code } = server.service.get(AGENTS).list()[0]!;
    await expect.poll(() => notesOf(server), WAIT).toMatchObject([{ code, is_done: true }]);
    // It would read them in the background.
    await new Promise((resolve) => setTimeout(resolve, 300));
    const { reads } = await server.service.get(STORE).stats();
    await server[Symbol.asyncDispose]();
    return reads;
  };
  const [same, changed, again] = [await readsUnder("one"), await readsUnder("two"), await readsUnder("two")];

  expect({ same: same < 40, changed: changed >= 40, again: again < 40 }).toEqual({
    ...{ same: true, changed: true, again: true },
  });
});

test("code that ends its process while suspended jobs are replayed is tried three times, and then left alone", async () => {
  const store = await emptyStore();
  const wait = (before: () => void) =>
    agentOf(async ({ job }) => {
      before();
      await job.waitFor("payment");
    });
  const first = new Life(
    store,
    wait(() => {}),
    { suspendAfter: 0 },
  );
  await first.start();
  await expect.poll(async () => (await first.jobs.get(JOB)).suspended, WAIT).toBeTruthy();
  first.die();

  let calls = 0;
  let life: Life;
  const deadly = wait(() => {
    calls++;
    life.die();
  });
  for (let n = 0; n < 3; n++) {
    life = new Life(store, deadly);
    await life.resume();
    await life.died;
  }
  life = new Life(store, deadly);
  await life.resume();
  await expect.poll(() => life.logs.join("\n"), WAIT).toContain("at each of 3 tries");

  expect(calls).toBe(3);
  expect(await life.jobs.get(JOB)).toMatchObject({ status: "in_progress", held: null });
  life.die();
});

test("of several instances, one with new code holds no suspended job that the code of an older one fits, until that is gone", async () => {
  const store = await emptyStore();
  const join = async (step: string) => {
    const agent = defineAgent({
      ...{ name: "Worker", version: "1.0.0" },
      methods: {
        job_start: {
          run: async ({ job }) => {
            await job.step(step, () => 1);
            await job.waitFor("payment");
          },
        },
      },
    });
    const life = new Life(store, agent, { shared: SHORT, suspendAfter: 0 });
    await life.resume();
    onTestFinished(() => void life.runner.close(0));
    return life;
  };
  const old = await join("fetch");
  await old.start();
  await expect.poll(async () => (await old.jobs.get(JOB)).suspended, WAIT).toBeTruthy();
  const suspended = await old.jobs.get(JOB);
  const next = await join("load");
  await new Promise((resolve) => setTimeout(resolve, 2500));
  const meanwhile = await next.jobs.get(JOB);
  await old.runner.close(0);

  await expect
    .poll(() => next.jobs.get(JOB), WAIT)
    .toMatchObject({ status: "awaiting", stop_reason: "code_changed" });
  expect(meanwhile).toEqual(suspended);
});

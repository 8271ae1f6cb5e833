// @alone
// @long
import { spawnSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { RUNNER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
import { PROCESS_TIME, project } from "../cli/_svc.ts";
import { agentOf } from "./_agent.ts";
import { startJob, until } from "./_jobs.ts";
import { ServiceProcess } from "./_process.ts";

const CONTROLLER = `
import { appendFileSync } from "node:fs";
import { createServer, defineAgent } from "agent-control-service";

const did = (what) => appendFileSync("did.log", what + "\\n");
const agent = (name, run, more = {}, methods = {}) => defineAgent({
  name, version: "1.0.0", isolate: { memory: "160mb", timeout: "3s", permissions: { write: ["did.log"] } }, ...more, methods: { job_start: { run }, ...methods },
});
const held = [];

export default createServer({
  port: 0,
  agents: [
    agent("Exit", ({ job }) => job.step("boom", () => process.exit(0))),
    agent("Hang", ({ job }) => job.step("boom", () => { for (;;); })),
    agent("Memory", ({ job }) => job.step("boom", async () => { for (;; await null) held.push(Array(1e5).fill(held.length)); }), { isolate: { memory: "160mb", timeout: "60s" } }),
    agent("Between", async ({ job }) => { await job.step("first", () => 1); process.exit(3); }),
    agent("Retried", ({ job }) => job.step("sometimes", ({ attempt }) => attempt < 3 ? process.exit(1) : attempt, { retries: 3, backoff: { initial: "10ms" } })),
    agent("Caught", async ({ job }) => {
      try { await job.step("boom", () => process.exit(1)); } catch (error) { return error.name + " of " + error.step; }
    }),
    agent("Worker", async ({ job, parameters }) => {
      const items = await Promise.all([1, 2, 3].map(async (n) => {
        const item = await job.openCase({ id: job.id + "-" + n, name: "Item " + n });
        const a = await item.step("fetch", () => { did("fetch " + n); return n * 10; });
        const b = await item.step("sum", () => a + n);
        await item.close({ b });
        return b;
      }));
      await job.step("wait", () => new Promise((done) => { did("wait"); setTimeout(done, job.context.mission_id === "slow" ? 1500 : 0); }));
      return { items, ids: Object.keys(process.env).filter((name) => /SERVICE|SECRET/.test(name)), token: parameters.TOKEN, own: process.env.TOKEN };
    }, { parameters: [{ name: "TOKEN", is_environment: true }] }),
    agent("Asker", async ({ job }) => {
      const item = await job.openCase({ id: job.id + "-case", name: "Question" });
      const answer = await item.ask("which", { question: "Which?", fields: [{ name: "text", required: true }] });
      await item.close(answer);
      return answer.text;
    }, {}, { human_answer: { run: ({ answer }) => did("notified " + answer.text) }, chat: { run: () => "chat in " + (process.env.SVC_AGENT ?? "the service") } }),
    agent("Tagged", async ({ job }) => {
      await job.tag("customer:acme", "order:7");
      return job.tag(undefined).catch((error) => error.message);
    }),
    agent("Patient", ({ job, signal }) => job.step("long", () => did("long") ?? new Promise((_, fail) => signal.addEventListener("abort", () => { did("aborted"); fail(signal.reason); })))),
  ],
});
`;

test(
  "an isolated agent that exits, hangs or uses all memory ends only its own job, with the step named",
  async () => {
    const service = await ServiceProcess.in(await project({ "controller.mjs": CONTROLLER }));
    const bad = ["exit", "hang", "memory", "between", "retried", "caught"];

    for (const agent of [...bad, "worker"]) await service.startJob(agent, agent);
    const ends = await Promise.all(
      bad.map(async (agent) => {
        const { status, error_message, message } = await service.until(agent, ["completed", "failed"]);
        return [agent, status, error_message ?? message];
      }),
    );
    const worker = await service.until("worker", ["completed", "failed"]);

    expect(ends).toEqual([
      ["exit", "failed", 'The process of agent "exit" exited with code 0 while step "boom" was under way'],
      ["hang", "failed", expect.stringMatching(/did not answer for 3 s.* while step "boom" was under way/)],
      ["memory", "failed", expect.stringMatching(/ran out of its 160 MB of memory while step "boom"/)],
      ["between", "failed", 'The process of agent "between" exited with code 3 after step "first"'],
      ["retried", "completed", expect.anything()],
      ["caught", "completed", "StepFailedError of boom"],
    ]);
    expect(worker.payload).toMatchObject({ items: [11, 22, 33] });
    expect(await service.end()).toBe(0);
  },
  PROCESS_TIME,
);

test(
  "an isolated agent has its parameters and no secret of the service, and a kill repeats none of its finished steps",
  async () => {
    const env = { SERVICE_PREVIOUS_API_KEY: "a-key-of-this-very-test", OTHER_SECRET: "x", TOKEN: "own" };
    const service = await ServiceProcess.in(await project({ "controller.mjs": CONTROLLER }), env);
    await service.startJob("worker", "job-1");
    await expect.poll(() => service.did()).toContain("wait");

    await service.kill();
    await service.start(env);
    const job = await service.until("job-1", ["completed", "failed"]);

    expect(job.payload).toEqual({ items: [11, 22, 33], ids: [], token: "own", own: "own" });
    expect((await service.did()).filter((one) => one.startsWith("fetch"))).toHaveLength(3);
  },
  PROCESS_TIME,
);

test(
  "the tags of an isolated agent are checked as those of any other",
  async () => {
    const service = await ServiceProcess.in(await project({ "controller.mjs": CONTROLLER }));
    await service.startJob("tagged", "job-1");

    const job = await service.until("job-1", ["completed", "failed"]);
    const [listed] = (await (await service.send("/jobs?tag=order:7")).json()) as { tags: string[] }[];

    expect(job).toMatchObject({ status: "completed", message: expect.stringContaining("invalid tags") });
    expect(listed).toMatchObject({ tags: ["customer:acme", "order:7"] });
    expect(await service.end()).toBe(0);
  },
  PROCESS_TIME,
);

test(
  "questions, answers, chat and stop reach an isolated agent",
  async () => {
    const service = await ServiceProcess.in(await project({ "controller.mjs": CONTROLLER }));
    await service.startJob("asker", "job-1");
    await service.startJob("patient", "job-2");
    await service.until("job-1", ["awaiting"]);

    const answered = await service.send("/jobs/job-1/cases/job-1-case/update", { answer: { text: "this" } });
    const chat = await (await service.send("/agents/asker/chat", { params: { text: "hello" } })).text();
    const asked = await service.until("job-1", ["completed", "failed"]);
    await expect.poll(() => service.did()).toContain("long");
    await service.send("/agents/patient/stop", { job_context: { job_id: "job-2" } });
    const stopped = await service.until("job-2", ["cancelled"]);

    expect(answered.status).toBe(200);
    expect(chat).toContain("chat in asker");
    expect(asked).toMatchObject({ status: "completed", message: "this" });
    expect(stopped.status).toBe("cancelled");
    expect(await service.did()).toContain("notified this");
  },
  PROCESS_TIME,
);

test(
  "the process of a job that waits for a person is not kept, and the job continues in another one",
  async () => {
    const service = await ServiceProcess.in(await project({ "controller.mjs": CONTROLLER }));
    for (const id of ["answered", "stopped"]) await service.startJob("asker", id);
    await service.until("answered", ["awaiting"]);
    await service.until("stopped", ["awaiting"]);
    const processes = () => childrenOf(service.pid);
    const before = processes();

    await expect.poll(processes, { timeout: 40_000, interval: 200 }).toBe(0);
    await service.send("/jobs/answered/cases/answered-case/update", { answer: { text: "late" } });
    await service.send("/agents/asker/stop", { job_context: { job_id: "stopped" } });
    const answered = await service.until("answered", ["completed", "failed"]);
    const stopped = await service.until("stopped", ["cancelled"]);

    expect(before).toBe(2);
    expect(answered).toMatchObject({ status: "completed", message: "late" });
    expect(stopped.status).toBe("cancelled");
    expect(await service.did()).toEqual(["notified late"]);
  },
  PROCESS_TIME,
);

/** How many processes of agents a process has started that are there; a shell watches each. */
function childrenOf(pid: number): number {
  const { stdout } = spawnSync("ps", ["-o", "comm=", "--ppid", String(pid)], { encoding: "utf8" });
  return stdout.split("\n").filter((line) => line.trim() !== "" && line.trim() !== "sh").length;
}

test("in a test server an isolated agent is loaded from its module", async () => {
  const folder = await project();
  const module = join(folder, "agent.mjs");
  await writeFile(
    module,
    `export const worker = { name: "Worker", version: "1.0.0", methods: { job_start: { fields: [{ name: "n", field_type: "IntegerField", default: 1 }], run: async ({ job }) => ({ pid: await job.step("pid", () => process.pid) }) } } };`,
  );
  const agent = agentOf(() => "in the service's process", { isolate: { module } });
  await using server = await testServer({ agents: [agent] });
  await using without = await testServer({ agents: [agentOf(() => "here", { isolate: true })] });

  await startJob(server.service, { id: "job-1" });
  await startJob(without.service, { id: "job-2" });
  const job = await until(server.service, "job-1");
  const unknown = await until(without.service, "job-2");

  expect(job.error).toBeNull();
  expect(job).toMatchObject({ status: "completed", result: { pid: expect.any(Number) } });
  expect((job.result as { pid: number }).pid).not.toBe(process.pid);
  expect(unknown.error).toMatch(/it is not known which file it is in/);
  expect(server.service.get(RUNNER).load().running).toBe(0);
});

test("a fork whose process ends before its handler has made the copied calls fails, is not held, and can be retried", async () => {
  const folder = await project();
  const module = join(folder, "agent.mjs");
  const works = `export const worker = { name: "Worker", version: "1.0.0", methods: { job_start: { fields: [{ name: "n", field_type: "IntegerField", default: 1 }], run: async ({ job }) => { const one = await job.step("one", () => process.pid); return [one, await job.step("two", () => process.pid)]; } } } };`;
  await writeFile(module, works);
  const agent = agentOf(() => "in the service's process", { isolate: { module } });
  await using server = await testServer({ agents: [agent] });
  await startJob(server.service, { id: "job-1" });
  const [one] = (await until(server.service, "job-1")).result as number[];
  await writeFile(module, "process.exit(9);");
  await server.crash();

  expect((await server.request("/jobs/job-1/fork", { json: { from: "two", job_id: "fork" } })).status).toBe(
    202,
  );
  const failed = await until(server.service, "fork", ["failed", "awaiting"]);
  await writeFile(module, works);
  expect((await server.request("/jobs/fork/retry", { json: {} })).status).toBe(202);
  const job = await until(server.service, "fork");

  expect(failed).toMatchObject({ status: "failed", stop_reason: "crashed", held: null });
  expect(job.result).toEqual([one, expect.any(Number)]);
});

// @losses
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AgentDefinition } from "agent-control-service";
import { JOBS, RUNNER } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { afterEach, expect, test } from "vitest";
import type { RunEntry } from "../../src/core/models/run-entry.ts";
import { countCrashes } from "../../src/core/runs/cluster/count-crashes.ts";
import { openUnderWay } from "../../src/core/runs/cluster/under-way.ts";
import { agentOf, gate } from "./_agent.ts";
import { startJob, until } from "./_jobs.ts";

const folders: string[] = [];

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), "held-"));
  folders.push(made);
  return made;
}

/** What a process leaves behind that crashes while these jobs are under way. */
function crashUnder(dataDir: string, ...jobs: string[]): void {
  const notes = openUnderWay(join(dataDir, "under-way"));
  for (const job of jobs) notes.began(job);
  notes.flush();
}

const marksOf = async ({ service }: TestServer, id: string) =>
  (await service.get(JOBS).log(id)).flatMap(({ entry }) => (entry.type === "mark" ? [entry.mark] : []));

/** Whether the first calls of a job are recorded, those of a job with a question with it. */
async function begun({ service }: TestServer, id: string): Promise<boolean> {
  const entries = (await service.get(JOBS).log(id)).map(({ entry }) => entry);
  const asks = entries.some((entry) => entry.type === "call" && entry.call === "open_case");
  return (
    service.get(RUNNER).runningSteps(id).length > 0 && (!asks || entries.some(({ type }) => type === "begun"))
  );
}

/** A service whose job was under way at three crashes. */
async function held(agent: AgentDefinition, id = "job-1"): Promise<TestServer> {
  const dataDir = folder();
  const open = () => testServer({ agents: [agent], store: undefined, dataDir, shutdownGrace: 0 });
  let server = await open();
  await startJob(server.service, { id });
  for (let crashes = 0; crashes < 3; crashes++) {
    await expect.poll(async () => (await server.service.get(JOBS).get(id)).run_count).toBe(crashes + 1);
    if (crashes === 0) await expect.poll(() => begun(server, id)).toBe(true);
    await server.service.close();
    crashUnder(dataDir, id);
    server = await open();
  }
  return server;
}

test("a held job stays held across further starts, and resumes where it was when a person retries it", async () => {
  let calls = 0;
  const fixed = gate();
  const agent = agentOf(async ({ job }) => {
    await job.step("first", () => ++calls);
    await job.step("second", () => fixed.opened);
    return { calls };
  });
  const first = await held(agent);
  const { dataDir } = first;
  const before = await first.service.get(JOBS).get("job-1");
  await first.service.close();
  await using second = await testServer({ agents: [agent], store: undefined, dataDir });
  const after = await second.service.get(JOBS).get("job-1");
  fixed.open();

  const released = await second.service.get(RUNNER).retry("job-1", "last_step");
  const job = await until(second.service, "job-1");

  expect(before).toMatchObject({ status: "awaiting", stop_reason: "crash_loop" });
  expect(before.error).toMatch(/at its handler, after step "first"\. .*, or stop it\.$/);
  expect(after).toEqual(before);
  expect(released).toMatchObject({ status: "in_progress", stop_reason: null, error: null });
  expect(job).toMatchObject({ status: "completed", result: { calls: 1 } });
  expect(await marksOf(second, "job-1")).toEqual([
    ...["interrupted", "resumed", "interrupted", "resumed", "interrupted", "held"],
    ...["continued", "resumed"],
  ]);
});

test("a held job can be stopped, and started over", async () => {
  const fixed = gate();
  const agent = agentOf(({ job }) => job.step("first", () => fixed.opened.then(() => "done")));
  await using stopped = await held(agent);
  await using restarted = await held(agent);
  fixed.open();

  await stopped.service.get(RUNNER).stop("job-1");
  await restarted.service.get(RUNNER).retry("job-1", "start");

  expect(await until(stopped.service, "job-1")).toMatchObject({
    status: "cancelled",
    stop_reason: "stopped",
  });
  expect(await until(restarted.service, "job-1")).toMatchObject({ status: "completed", result: "done" });
});

test("a held job continues when an operator sets it to in_progress", async () => {
  const fixed = gate();
  const agent = agentOf(({ job }) => job.step("first", () => fixed.opened.then(() => "done")));
  await using server = await held(agent);
  fixed.open();

  await server.service.get(RUNNER).override("job-1", "in_progress", { kind: "key" });

  expect(await until(server.service, "job-1")).toMatchObject({ status: "completed", stop_reason: null });
});

test("the questions of a held job stay open, and an answer counts when the job continues", async () => {
  const fixed = gate();
  const agent = agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "q", name: "Question" });
    const asked = item.ask({ question: "Which?", fields: [{ name: "text", required: true }] });
    await job.step("beside", () => fixed.opened);
    return asked;
  });
  await using server = await held(agent);
  fixed.open();
  const { service } = server;

  await service.get(RUNNER).answer("job-1", "q", { answer: { text: "this" }, message: null });
  const answered = await service.get(JOBS).get("job-1");
  await service.get(RUNNER).retry("job-1", "last_step");

  expect(answered).toMatchObject({ status: "awaiting", stop_reason: "crash_loop", open_questions: 0 });
  expect(await until(service, "job-1")).toMatchObject({ status: "completed", result: { text: "this" } });
});

test("a job that only waits for a person when the process crashes is never suspected", async () => {
  const agent = agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "q", name: "Question" });
    return item.ask({ question: "Which?", fields: [{ name: "text", required: true }] });
  });
  const dataDir = folder();
  for (let starts = 0; starts < 5; starts++) {
    const server = await testServer({ agents: [agent], store: undefined, dataDir });
    if (starts === 0) await startJob(server.service, { id: "job-1" });
    await until(server.service, "job-1", ["awaiting"]);
    await expect.poll(() => server.service.get(RUNNER).load().running).toBe(0);
    const left = readFileSync(join(dataDir, "under-way"));
    await server.service.close();
    writeFileSync(join(dataDir, "under-way"), left);
  }
  await using last = await testServer({ agents: [agent], store: undefined, dataDir });

  expect(await last.service.get(JOBS).get("job-1")).toMatchObject({
    status: "awaiting",
    stop_reason: null,
  });
});

test("an orderly end of the process does not count, however often", async () => {
  const agent = agentOf(({ job }) => job.step("long", () => new Promise(() => {})));
  const dataDir = folder();
  for (let starts = 0; starts < 5; starts++) {
    await using server = await testServer({ agents: [agent], store: undefined, dataDir, shutdownGrace: 0 });
    if (starts === 0) await startJob(server.service, { id: "job-1" });
    await expect.poll(() => server.service.get(RUNNER).load().running).toBe(1);
  }
  await using last = await testServer({ agents: [agent], store: undefined, dataDir, shutdownGrace: 0 });

  expect((await last.service.get(JOBS).get("job-1")).status).toBe("in_progress");
});

test("jobs that were in progress at a crash are resumed side by side with the others", async () => {
  const all = ["suspect-1", "suspect-2", "suspect-3", "other"];
  const begun = new Set<string>();
  const together = gate();
  let isStuck = true;
  const agent = agentOf(async ({ job }) => {
    await job.step("first", async () => {
      if (isStuck) await new Promise(() => {});
      begun.add(job.id);
      if (begun.size === all.length) together.open();
      await together.opened;
    });
    return "done";
  });
  const dataDir = folder();
  const first = await testServer({ agents: [agent], store: undefined, dataDir, shutdownGrace: 0 });
  for (const id of all) await startJob(first.service, { id });
  await first.service.close();
  crashUnder(dataDir, ...all.slice(0, 3));
  isStuck = false;

  await using second = await testServer({ agents: [agent], store: undefined, dataDir });

  for (const id of all) expect((await until(second.service, id)).result).toBe("done");
});

test("jobs that were in progress at two crashes are resumed after the others, one at a time, and all complete", async () => {
  const order: string[] = [];
  let isStuck = true;
  const agent = agentOf(async ({ job }) => {
    await job.step("first", async () => {
      if (isStuck) await new Promise(() => {});
      order.push(`${job.id} begins`);
      await new Promise((resolve) => setTimeout(resolve, 30));
      order.push(`${job.id} ends`);
    });
    return "done";
  });
  const dataDir = folder();
  const first = await testServer({ agents: [agent], store: undefined, dataDir, shutdownGrace: 0 });
  const suspects = ["suspect-1", "suspect-2", "suspect-3"];
  for (const id of suspects) await startJob(first.service, { id });
  await startJob(first.service, { id: "other" });
  await first.service.close();
  crashUnder(dataDir, ...suspects);
  const next = await testServer({ agents: [agent], store: undefined, dataDir, shutdownGrace: 0 });
  await expect.poll(() => next.service.get(RUNNER).load().running).toBe(4);
  await next.service.close();
  crashUnder(dataDir, ...suspects);
  isStuck = false;

  await using second = await testServer({ agents: [agent], store: undefined, dataDir });
  for (const id of [...suspects, "other"]) await until(second.service, id);

  expect(order[0]).toBe("other begins");
  expect(order.filter((one) => !one.startsWith("other"))).toEqual(
    suspects.flatMap((id) => [`${id} begins`, `${id} ends`]),
  );
});

const at = "2026-01-31T09:30:00.000Z";
const crash = (run: number): RunEntry => ({ at, type: "mark", mark: "interrupted", doing: "a step", run });
const ended: RunEntry = { at, type: "mark", mark: "interrupted" };
const resumed: RunEntry = { at, type: "mark", mark: "resumed" };
const restarted: RunEntry = { at, type: "mark", mark: "restarted" };
const call = (n: number): RunEntry => ({ at, type: "call", call: "step", name: `s${n}`, position: n, n: 0 });

test("crashes are counted since the last progress, each run once", () => {
  expect(countCrashes([])).toBe(0);
  expect(countCrashes([call(0), crash(1)])).toBe(1);
  expect(countCrashes([call(0), crash(1), crash(1), ended, crash(1)])).toBe(1);
  expect(countCrashes([call(0), crash(1), resumed, crash(2), resumed, crash(3)])).toBe(3);
  expect(countCrashes([call(0), crash(1), resumed, ended, resumed, crash(3)])).toBe(2);
  expect(countCrashes([call(0), crash(1), resumed, call(1), crash(2)])).toBe(1);
  expect(countCrashes([call(0), crash(1), resumed, call(1)])).toBe(0);
  expect(countCrashes([crash(1), crash(2), { at, type: "mark", mark: "continued", by: "key" }])).toBe(0);
});

test("a job that starts over after each crash makes progress only if it gets further", () => {
  expect(countCrashes([call(0), crash(1), restarted, call(0), crash(2), restarted, call(0), crash(3)])).toBe(
    3,
  );
  expect(countCrashes([call(0), crash(1), restarted, call(0), call(1), crash(2)])).toBe(1);
});

test("the notes of a crashed process are kept until they are settled, whatever ends the next ones", () => {
  const path = join(folder(), "under-way");
  const first = openUnderWay(path);
  for (const id of ["a", "b", "c"]) first.began(id);
  first.doing("b", 'step "boom" of case "ä"');
  first.rested("a");

  const second = openUnderWay(path);
  const found = [...second.leftovers().values()].map(({ job, doing }) => ({ job, doing }));
  second.began("d");
  second.flush();
  second.settle("b");
  const third = [...openUnderWay(path).leftovers().keys()];
  second.end();
  const fourth = [...openUnderWay(path).leftovers().keys()];

  expect(found).toEqual([{ job: "b", doing: 'step "boom" of case "ä"' }, { job: "c" }]);
  expect(new Set(third)).toEqual(new Set(["c", "d"]));
  expect(fourth).toEqual(["c"]);
  const last = openUnderWay(path);
  last.settle("c");
  last.end();
  expect(readFileSync(path)).toHaveLength(0);
});

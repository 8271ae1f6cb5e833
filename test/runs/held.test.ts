import type { AgentDefinition, JobHandle } from "agent-control-service";
import * as v from "valibot";
import { expect, test } from "vitest";
import { agentOf } from "./_agent.ts";
import { Deploys } from "./_deploys.ts";
import { JOB } from "./_lives.ts";

const FORM = v.object({ approved: v.boolean() });
const done: string[] = [];

/** An agent that makes these steps, asks, and gives the answer. */
function worker(steps: readonly string[], more: { version?: string; ask?: boolean } = {}): AgentDefinition {
  const { version = "1.0.0", ask = true } = more;
  const run = async ({ job }: { job: JobHandle }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    for (const name of steps) await item.step(name, () => void done.push(name));
    const answer = ask ? await item.ask("approve", { question: "Pay it?", fields: FORM }) : undefined;
    await item.close();
    return { answer, version };
  };
  return agentOf(run, { version });
}

const isHeld = ({ held }: { held: unknown }) => held !== null;

test("a job whose record does not fit new code is held: its question stays open and can be answered", async () => {
  done.length = 0;
  const deploys = await Deploys.start(worker(["fetch", "check"]));
  const asked = await deploys.question("a");

  await deploys.deploy(worker(["fetch", "audit"], { version: "1.1.0" }));
  const held = await deploys.until(isHeld);
  const item = await deploys.answer("a", { approved: true });
  const answered = await deploys.job();

  expect(held).toMatchObject({
    ...{ status: "awaiting", stop_reason: "code_changed", open_questions: 1, agent_version: "1.0.0" },
    held: {
      expected: 'step "check" of case "a"',
      found: 'step "audit" of case "a"',
      recorded: { version: "1.0.0", fingerprint: expect.stringMatching(/^[0-9a-f]{12}$/) },
      present: { version: "1.1.0", fingerprint: expect.stringMatching(/^[0-9a-f]{12}$/) },
    },
  });
  for (const part of ['step "check"', 'step "audit"', "version 1.0.0", "version 1.1.0"])
    expect(held.error).toContain(part);
  expect(asked.name).toBe("approve");
  expect(item).toMatchObject({ status: "in_progress", question: null });
  expect(answered).toMatchObject({ status: "awaiting", stop_reason: "code_changed", open_questions: 0 });
  expect(done).toEqual(["fetch", "check"]);
});

test("it goes on by itself once fitting code is back, with the answer that was given meanwhile", async () => {
  done.length = 0;
  const first = worker(["fetch", "check"]);
  const deploys = await Deploys.start(first);
  await deploys.question("a");
  const other = worker(["fetch", "audit"], { version: "1.1.0" });
  await deploys.deploy(other);
  await deploys.until(isHeld);
  await deploys.answer("a", { approved: true });
  const before = await deploys.life.entries();
  // Tried again at each start, without a trace.
  await deploys.deploy(other);
  await new Promise((resolve) => setTimeout(resolve, 50));
  const after = await deploys.life.entries();

  await deploys.deploy(first);
  const job = await deploys.until(({ status }) => status === "completed");

  expect(after).toEqual(before);
  expect(job).toMatchObject({ error: null, stop_reason: null, held: null });
  expect(job.result).toEqual({ answer: { approved: true }, version: "1.0.0" });
  expect(done).toEqual(["fetch", "check"]);
});

test("a handler that fails on an old record is held, too, and not failed", async () => {
  const deploys = await Deploys.start(worker(["fetch", "check"]));
  await deploys.question("a");

  await deploys.deploy(
    agentOf(async ({ job }) => {
      const item = await job.openCase({ id: "a", name: "a" });
      const fetched = await item.step("fetch", () => ({ lines: [1] }));
      return fetched.lines.length;
    }),
  );
  const job = await deploys.until(isHeld);

  expect(job.error).toMatch(/The handler failed \(.*lines.*\), but the record goes on with step "check"/);
  expect(job.held).toMatchObject({ found: null });
});

test("the same code that makes other calls each time is faulty, and its job fails", async () => {
  let life = 0;
  const agent = agentOf(async ({ job }) => {
    const name = `life ${++life}`;
    await job.step(name, () => name);
    await job.step("then", () => new Promise(() => {}));
  });
  const deploys = await Deploys.start(agent);
  while (!(await deploys.life.entries()).some(({ type }) => type === "call")) await new Promise(setImmediate);

  await deploys.deploy(agent);
  const job = await deploys.ended();

  expect(job).toMatchObject({ status: "failed", stop_reason: "nondeterministic" });
});

test("a held job can be stopped", async () => {
  const deploys = await Deploys.start(worker(["fetch", "check"]));
  await deploys.question("a");
  await deploys.deploy(worker(["fetch", "audit"]));
  await deploys.until(isHeld);

  await deploys.life.runner.stop(JOB);

  expect(await deploys.job()).toMatchObject({ status: "cancelled", stop_reason: "stopped", held: null });
  expect(await deploys.life.cases.get("a")).toMatchObject({ status: "cancelled", question: null });
});

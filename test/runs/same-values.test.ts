import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AgentDefinition, Service } from "agent-control-service";
import { CASES, JOBS, RUNNER, STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, onTestFinished, test } from "vitest";
import { jobContext, until } from "./_jobs.ts";

const MARK = "by the handler";

/** Walks every value that a handler is given, notes what of it cannot be changed, and changes it everywhere. */
const MODULE = `
import { appendFileSync } from "node:fs";

const FILE = new URL("seen.log", import.meta.url);
const isFixed = (value) => Object.isFrozen(value) || Object.isSealed(value) || !Object.isExtensible(value);
const walk = (value, path, fixed) => {
  if (value === null || typeof value !== "object") return fixed;
  if (isFixed(value)) fixed.push(path);
  for (const key of Object.keys(value)) {
    const own = Object.getOwnPropertyDescriptor(value, key);
    if ("value" in own && !own.writable) fixed.push(path + "." + key);
    walk(value[key], path + "." + key, fixed);
  }
  if (isFixed(value)) return fixed;
  if (Array.isArray(value)) value.push("${MARK}");
  else value.added = "${MARK}";
  return fixed;
};
const seen = (id, what, value, shown = value) => {
  const text = JSON.stringify(shown);
  appendFileSync(FILE, JSON.stringify({ id, what, kind: typeof value, text, fixed: walk(value, what, []) }) + "\\n");
};
const value = () => ({ list: [3, 1, 2], deep: { more: [{ a: 1 }] } });
const broken = () => { throw new Error("broken"); };

const child = { name: "Child", version: "1.0.0", methods: { job_start: { fields: [], run: () => value() } } };
const fails = { name: "Fails", version: "1.0.0", methods: { job_start: { fields: [], run: broken } } };

export const agents = [child, fails];
export const worker = {
  name: "Apart",
  version: "1.0.0",
  parameters: [{ name: "SPACE", value: "x" }],
  methods: {
    human_answer: {
      run: ({ job, case: item, answer }) => {
        const tell = (what, one, shown) => seen(job.job_context.job_id, "human_answer: " + what, one, shown);
        tell("answer", answer);
        tell("case", item, { name: item.name, question: item.question?.question });
        tell("job", job, job.job_context);
      },
    },
    job_start: {
      fields: [{ name: "values", field_type: "MultipleChoiceField", choices: ["a", "b", "c"] }],
      run: async ({ job, fields, parameters }) => {
        const tell = (what, one, shown) => seen(job.id, what, one, shown);
        tell("fields", fields);
        tell("parameters", { ...parameters });
        tell("context", job.context);
        tell("step", await job.step("value", () => value()));
        const failed = await job.step("failing", broken).catch((error) => error);
        tell("failure", { name: failed.name, message: failed.message, cause: failed.cause?.message });
        const item = await job.openCase({ id: job.id + "-case", name: "A case" });
        tell("step of a case", await item.step("value", () => value()));
        await item.update({ name: "noted", payload: value() });
        tell("child", await (await job.start("child")).result());
        const ofChild = await (await job.start("fails")).result().catch((error) => error);
        tell("failed child", { name: ofChild.name, status: ofChild.status, reason: ofChild.reason });
        const event = await job.waitFor("paid", { where: { job: job.id } });
        event.data.items.sort();
        tell("event", event, { name: event.name, data: event.data });
        const early = await job.waitFor("early", { where: { job: job.id } });
        tell("event from before the wait", early, { name: early.name, data: early.data });
        tell("answer", await item.ask("which", { question: "Which?", fields: [{ name: "text" }] }));
        const read = await item.read();
        tell("whole case", structuredClone(read));
        tell("case", read, { id: read.id, name: read.name, payload: read.updates.find(({ name }) => name === "noted").payload });
        const readJob = await job.read();
        tell("whole job", structuredClone(readJob));
        tell("job", readJob, { context: readJob.job_context, fields: readJob.job_fields });
        await job.waitFor("end", { where: { job: job.id } });
        return "done";
      },
    },
  },
};
`;

interface Seen {
  readonly id: string;
  readonly what: string;
  readonly kind: string;
  readonly text: string;
  readonly fixed: readonly string[];
}

const IDS = ["here", "apart"];

/** All that is stored of a job, as text. */
async function storedOf(service: Service, id: string): Promise<string> {
  const [jobs, cases] = [service.get(JOBS), service.get(CASES)];
  const job = await jobs.get(id);
  const { items: events } = await service.get(STORE).table("ReceivedEvent").list({ sort: "id" });
  const own = [job, await jobs.show(job), await cases.get(`${id}-case`), await jobs.log(id)];
  return JSON.stringify([...own, events]);
}

test("a handler may change all that it is given, in the first run and in a replay, isolated or not, and nothing stored changes", async () => {
  const folder = await mkdtemp(join(tmpdir(), "same-values-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const module = join(folder, "agent.mjs");
  await writeFile(module, MODULE);
  const { worker, agents: others } = (await import(module)) as {
    worker: AgentDefinition;
    agents: AgentDefinition[];
  };
  const agents = [
    { ...worker, name: "Here" },
    { ...worker, isolate: { module, permissions: { write: ["seen.log"] } } },
    ...others,
  ];
  const log = join(folder, "seen.log");
  const read = (): Seen[] => {
    if (!existsSync(log)) return [];
    const lines = readFileSync(log, "utf8").trim().split("\n");
    return lines.map((line) => JSON.parse(line) as Seen);
  };
  const open = (): Promise<TestServer> =>
    testServer({ agents, store: undefined, shutdownGrace: 0, dataDir: join(folder, "data") });
  const told = (id: string, what: string) =>
    expect.poll(() => read().some((one) => one.id === id && one.what === what)).toBe(true);

  const lives: Seen[][] = [];
  const server = await open();
  for (const id of IDS) {
    const runner = server.service.get(RUNNER);
    await runner.start(id, { job_context: jobContext(id), job_fields: { values: ["b", "a"] } });
    await told(id, "failed child");
    await runner.receive("early", { data: { job: id, items: ["b", "a"] } });
    await runner.receive("paid", { data: { job: id, items: ["b", "a"], deep: { list: [1] } } });
    await until(server.service, id, ["awaiting"]);
    const answer = { answer: { text: "this" } };
    const path = `/jobs/${id}/cases/${id}-case/update`;
    await expect.poll(async () => (await server.request(path, { json: answer })).status).toBe(200);
    await told(id, "job");
    lives.push(read().filter((one) => one.id === id));
    expect(await storedOf(server.service, id)).not.toContain(MARK);
  }
  await server[Symbol.asyncDispose]();

  const before = read().length;
  await using next = await open();
  const { service } = next;
  await service.ready();
  for (const id of IDS) {
    // Of several instances, none runs a job that waits before it is woken.
    await service.get(RUNNER).receive("end", { data: { job: id } });
    expect(await until(service, id)).toMatchObject({ status: "completed" });
    const again = read()
      .slice(before)
      .filter((one) => one.id === id);
    lives.push(again.slice(again.findLastIndex(({ what }) => what === "fields")));
    expect(await storedOf(service, id)).not.toContain(MARK);
  }

  expect(lives.flat().flatMap(({ id, fixed }) => fixed.map((path) => `${id}: ${path}`))).toEqual([]);
  // With all that differs between jobs, such as times.
  const wholes = lives.map((seen) =>
    seen.filter(({ what }) => what.startsWith("whole")).map(({ text }) => text),
  );
  expect(wholes.slice(2)).toEqual(wholes.slice(0, 2));
  expect(wholes.flat()).toHaveLength(8);
  // The agent is notified of an answer once.
  const plain = (seen: readonly Seen[], isOfAnswer: boolean) =>
    seen
      .filter(({ what }) => !what.startsWith("whole"))
      .filter(({ what }) => what.startsWith("human_answer") === isOfAnswer)
      .map(({ id, what, kind, text }) => [what, kind, text.replaceAll(id, "job")]);
  const [first, ...rest] = lives.map((seen) => plain(seen, false));
  expect(first!.map(([what]) => what)).toEqual(
    [
      ["fields", "parameters", "context", "step", "failure", "step of a case", "child", "failed child"],
      ["event", "event from before the wait", "answer", "case", "job"],
    ].flat(),
  );
  for (const other of rest) expect(other).toEqual(first);
  const [here, apart, ...none] = lives.map((seen) => plain(seen, true));
  expect(here).toHaveLength(3);
  expect(apart).toEqual(here);
  expect(none).toEqual([[], []]);
});

import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AgentDefinition } from "agent-control-service";
import { RUNNER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, onTestFinished, test } from "vitest";
import { jobContext, until } from "./_jobs.ts";

/** Walks every value that a handler is given, and writes down what of it cannot be changed. */
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
  value.added = "by the handler";
  return fixed;
};
const seen = (id, what, value) => {
  const text = JSON.stringify(value);
  appendFileSync(FILE, JSON.stringify({ id, what, kind: typeof value, text, fixed: walk(value, what, []) }) + "\\n");
};
const value = () => ({ list: [3, 1, 2], deep: { more: [{ a: 1 }] } });

const child = { name: "Child", version: "1.0.0", methods: { job_start: { fields: [], run: () => value() } } };
const fails = { name: "Fails", version: "1.0.0", methods: { job_start: { fields: [], run: () => { throw new Error("broken"); } } } };

export const agents = [child, fails];
export const worker = {
  name: "Apart",
  version: "1.0.0",
  parameters: [{ name: "SPACE", default: "x" }],
  methods: {
    human_answer: {
      run: ({ job, case: item, answer }) => {
        for (const [what, one] of Object.entries({ job, case: item, answer })) seen(job.job_context.job_id, "human_answer " + what, what === "answer" ? one : { ...one });
      },
    },
    job_start: {
      fields: [{ name: "values", field_type: "CharField", default: "x" }],
      run: async ({ job, fields, parameters }) => {
        const tell = (what, one) => seen(job.id, what, one);
        tell("fields", fields);
        tell("parameters", { ...parameters });
        tell("context", job.context);
        tell("step", await job.step("value", () => value()));
        const failed = await job.step("failing", () => { throw new Error("no"); }).catch((error) => error);
        tell("failure", { name: failed.name, message: failed.message });
        const item = await job.openCase({ id: job.id + "-case", name: "A case" });
        tell("step of a case", await item.step("value", () => value()));
        tell("child", await (await job.start("child")).result());
        tell("failed child", await (await job.start("fails")).result().catch(({ status, reason }) => ({ status, reason })));
        const event = await job.waitFor("paid", { where: { job: job.id } });
        const { at, id, ...rest } = event;
        tell("event", event && rest);
        event.data.items.sort();
        tell("answer", await item.ask("which", { question: "Which?", fields: [{ name: "text" }] }));
        const { updates, ...shown } = await item.read();
        tell("case", { id: shown.id, name: shown.name });
        tell("job", { context: (await job.read()).job_context });
        await item.close({ done: true });
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

test("a handler is given the same values to change, in the first run and in a replay, isolated or not", async () => {
  const folder = await mkdtemp(join(tmpdir(), "same-values-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const module = join(folder, "agent.mjs");
  await writeFile(module, MODULE);
  const { worker, agents: others } = (await import(module)) as {
    worker: AgentDefinition;
    agents: AgentDefinition[];
  };
  const agents = [{ ...worker, name: "Here" }, { ...worker, isolate: { module } }, ...others];
  const log = join(folder, "seen.log");
  const read = (): Seen[] =>
    existsSync(log)
      ? readFileSync(log, "utf8")
          .trim()
          .split("\n")
          .map((line) => JSON.parse(line) as Seen)
      : [];
  const options = { agents, store: undefined, shutdownGrace: 0 };

  const lives: Record<string, Seen[]>[] = [];
  let dataDir: string | undefined;
  for (const life of ["first", "replay"] as const) {
    const before = read().length;
    await using server = await testServer({ ...options, ...(dataDir && { dataDir }) });
    ({ dataDir } = server);
    const { service } = server;
    await service.ready();
    const runner = service.get(RUNNER);
    for (const id of ["here", "apart"]) {
      if (life === "first") {
        await runner.start(id, { job_context: jobContext(id), job_fields: {} });
        const data = { job: id, items: ["b", "a"], deep: { list: [1] } };
        await expect
          .poll(() => read().some((one) => one.id === id && one.what === "failed child"))
          .toBe(true);
        await runner.receive("paid", { data });
        await until(service, id, ["awaiting"]);
        const answer = { answer: { text: "this" } };
        await expect
          .poll(
            async () =>
              (await server.request(`/jobs/${id}/cases/${id}-case/update`, { json: answer })).status,
          )
          .toBe(200);
      }
      const isThere = () =>
        read()
          .slice(before)
          .some((one) => one.id === id && one.what === "job");
      await expect.poll(isThere).toBe(true);
    }
    const seen = read().slice(before);
    lives.push(Object.fromEntries(["here", "apart"].map((id) => [id, seen.filter((one) => one.id === id)])));
    if (life === "replay") {
      for (const id of ["here", "apart"]) await runner.receive("end", { data: { job: id } });
      for (const id of ["here", "apart"])
        expect(await until(service, id)).toMatchObject({ status: "completed" });
    } else await service.close();
  }

  const all = lives.flatMap((life) => Object.values(life));
  expect(all.flat().flatMap(({ id, fixed }) => fixed.map((path) => `${id}: ${path}`))).toEqual([]);
  const plain = ({ id, what, kind, text }: Seen) => [what, kind, text.replaceAll(id, "job")];
  // The agent is notified of an answer once.
  const [first, ...rest] = all.map((seen) =>
    seen.filter(({ what }) => !what.startsWith("human_answer")).map(plain),
  );
  expect(first!.map(([what]) => what)).toContain("event");
  for (const other of rest) expect(other).toEqual(first);
});

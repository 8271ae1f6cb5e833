import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AgentDefinition } from "agent-control-service";
import { JOBS, RUNNER } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { AgentProcess } from "../../src/core/runs/isolation/agent-process.ts";
import { EMISSIONS } from "../../src/core/service/inner-tokens.ts";
import { jobContext, until } from "./_jobs.ts";

/** Handlers that an agent in the service's process and an isolated one have, chosen by a field. */
const MODULE = `
import { appendFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";

const FILE = new URL("did.log", import.meta.url);
const handlers = {
  many: async ({ job, did }) => {
    for (let n = 0; n < 20; n++) await job.step("step " + (n % 2), () => did(n));
    return job.step("last", ({ attempt, idempotencyKey }) => ({ attempt, idempotencyKey }));
  },
  beside: async ({ job }) => {
    const all = await Promise.all([1, 2, 3].map((n) => job.step("beside", async () => { await pause(100 * (4 - n)); return n; })));
    return { all, changed: await job.step("changed", () => ({ none: undefined, zero: -0, list: [1, { a: null }] })) };
  },
  retried: ({ job }) => { let tries = 0; return job.step("retried", () => { if (++tries < 3) throw new Error("try " + tries); return tries; }, { retries: 3, backoff: { initial: "1ms" } }); },
  failing: async ({ job, did }) => { let tries = 0; try { await job.step("failing", () => { throw new TypeError("no " + ++tries); }, { retries: 0 }); } catch (error) { return [error.name, error.message, tries]; } },
  inside: ({ job, did }) => job.step("outer", () => { void job.step("inner", () => did("inner")); return 1; }),
  insideLater: ({ job, did }) => job.step("outer", async () => { await null; void job.sleep(1); return 1; }),
  ambiguous: async ({ job, did }) => {
    const other = (async () => { await pause(5); await job.step("same", () => pause(600)); })();
    other.catch(() => {});
    await job.step("first", () => pause(300));
    await job.step("same", () => did("same"));
    await other;
  },
  mixed: async ({ job, did }) => {
    const [item] = await Promise.all([job.openCase({ id: job.id + "-case", name: "Item" }), job.step("beside", () => did("beside"))]);
    const steps = [item.step("a", () => did("a")), item.step("a", () => did("b")), job.changed("x") && job.step("c", () => did("c"))];
    const names = await Promise.all(steps);
    await item.close({ names });
    return names;
  },
  emits: ({ job }) => job.step("emits", async ({ emit, attempt }) => { for (const word of ["a ", { b: attempt }, "c."]) { emit(word); await pause(1); } if (attempt === 1) throw new Error("again"); return "done"; }, { retries: 1, backoff: { initial: "1ms" } }),
  costs: async ({ job, did }) => {
    await job.step("cheap", () => did("cheap"), { cost: 1 });
    const free = job.step("free", async () => { did("free"); await pause(300); });
    await Promise.all([free, job.step("dear", () => did("dear"), { cost: 2 })]);
    await job.step("after", () => did("after"));
  },
  model: async ({ job }) => {
    const usage = { prompt_tokens: 10, completion_tokens: 2 };
    const send = (request, { attempt, report }) => {
      if (attempt === 2) report({ usage: { inputTokens: 7, outputTokens: 0 } });
      if (attempt < 3) throw Object.assign(new Error("try " + attempt), { status: attempt === 1 ? 429 : undefined });
      return { id: "r1", model: request.model, usage, choices: [{ finish_reason: "stop" }] };
    };
    const cost = ({ inputTokens, outputTokens }) => (inputTokens + outputTokens) / 100;
    await job.model("asks", { model: "small", text: "hello" }, send, { cost, retries: 2, backoff: { initial: "1ms" } });
    await job.step("finds", () => 1, { kind: "retrieval", input: { query: "x" } });
    return job.step("charges", ({ report }) => report({ cost: 0.5 }), { cost: 0.1 });
  },
  late: ({ job }) => job.step("slow", async ({ attempt }) => { await pause(attempt === 1 ? 150 : 400); return "try " + attempt; }, { timeout: "50ms", retries: 1, backoff: { initial: "1ms" } }).catch((error) => error.message),
  overtaken: ({ job }) => job.step("slow", async ({ attempt }) => { await pause(attempt === 1 ? 1000 : 500); return "try " + attempt; }, { timeout: "900ms", retries: 1, backoff: { initial: "1ms" } }),
  leaves: async ({ job, did }) => {
    void job.step("slow", async () => { await pause(300); return "of the job before"; });
    void pause(300).then(() => job.step("left", () => did("left"))).catch(() => {});
    return "left";
  },
  next: async ({ job }) => [await job.step("slow", async () => { await pause(900); return "own"; }), process.pid],
  plugin: ({ get }) => get({ name: "something" }),
  exits: ({ job, did }) => job.step("exits", () => { did("exits"); process.exit(7); }),
  // While it is busy, the service does not know that the next step is about to begin.
  busy: async ({ job, did }) => {
    await job.step("first", () => 1);
    did("turn");
    for (const end = Date.now() + 1500; Date.now() < end; );
    await job.step("next", async () => { did("next"); await pause(600); return 2; });
    await job.step("last", () => did("last"));
    return "done";
  },
};

export const worker = {
  name: "Apart",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: [{ name: "kind", field_type: "CharField" }],
      run: ({ job, fields, get }) => handlers[fields.kind]({ job, get, did: (what) => { appendFileSync(FILE, job.id + " " + what + "\\n"); return what; } }),
    },
  },
};
`;

let folder: string;
let agents: AgentDefinition[];
let server: TestServer;

// Each start of a process takes long: most of the tests have one.
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "isolated-steps-"));
  const module = join(folder, "agent.mjs");
  await writeFile(module, MODULE);
  const { worker } = (await import(module)) as { worker: AgentDefinition };
  agents = [
    { ...worker, name: "Here" },
    { ...worker, isolate: { module, permissions: { write: ["did.log"] } } },
  ];
  server = await testServer({ agents });
});

afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

function did(id: string): string[] {
  const file = join(folder, "did.log");
  const lines = existsSync(file) ? readFileSync(file, "utf8").split("\n") : [];
  return lines.filter((line) => line.startsWith(`${id} `)).map((line) => line.slice(id.length + 1));
}

const start = async (
  { service }: TestServer,
  agent: string,
  kind: string,
  { which = 0, limits = {} }: { which?: number; limits?: object } = {},
) => {
  const id = `${agent}-${kind}-${which}`;
  await service.ready();
  const job_instructions = {
    ...{ max_cases: null, max_duration: null, max_cost: null, stop_on_warning: false },
    ...{ stop_on_error: false, job_start_time: null, ...limits },
  };
  const job_context = jobContext(id, { job_instructions });
  await service.get(RUNNER).start(agent, { job_context, job_fields: { kind } });
  return id;
};

/** What a job has recorded, without times and ids. */
async function story({ service }: TestServer, id: string, agent: string): Promise<unknown> {
  const job = await until(service, id);
  const log = await service.get(JOBS).log(id);
  const entries = log.map(({ entry }) => {
    const { at, started_at, next_at, code, ...rest } = entry as unknown as Record<string, unknown>;
    if (rest.error instanceof Object) rest.error = { ...rest.error, stack: undefined };
    return rest;
  });
  const { status, stop_reason, result, error, total_cost } = job;
  return JSON.parse(
    JSON.stringify({ status, stop_reason, result, error, total_cost, entries })
      .replaceAll(agent, "agent")
      // Only in the service's process it is known where a call is.
      .replaceAll(/\. The call is at [^"]*/g, ""),
  );
}

test("a job of an isolated agent does and records the same as one in the service's process", async () => {
  const sent: string[] = [];
  const { send } = AgentProcess.prototype;
  AgentProcess.prototype.send = function (message) {
    sent.push(message.type);
    send.call(this, message);
  };
  onTestFinished(() => {
    AgentProcess.prototype.send = send;
  });
  const kinds = [
    "many",
    "beside",
    "retried",
    "failing",
    "inside",
    "insideLater",
    "ambiguous",
    "mixed",
    "model",
  ];

  const runs: Record<string, number> = {};
  for (const kind of [...kinds, "costs", "late", "overtaken"]) {
    const limits = { max_cost: kind === "costs" ? 2 : null };
    sent.length = 0;
    const [here, apart] = await Promise.all(
      ["here", "apart"].map(async (agent) => {
        const id = await start(server, agent, kind, { limits });
        return { ...((await story(server, id, agent)) as object), did: did(id) };
      }),
    );
    expect(apart, kind).toEqual(here);
    runs[kind] = sent.filter((type) => type === "run").length;
  }

  // Steps that need nothing of the service start without a message.
  expect(runs).toMatchObject({ many: 1, beside: 0, retried: 3, failing: 0, mixed: 2 });
});

test("what a step of an isolated agent emits is that of one in the service's process, by attempt", async () => {
  const emitted = async (agent: string) => {
    const reader = server.service.get(EMISSIONS).follow(`${agent}-emits-0`, () => {});
    await until(server.service, await start(server, agent, "emits"));
    return reader.take("over").map(({ attempt, index, chunks }) => ({ attempt, index, chunks }));
  };

  const chunks = (attempt: number) => ({ attempt, index: 0, chunks: ["a ", { b: attempt }, "c."] });
  expect(await emitted("here")).toEqual([chunks(1), chunks(2)]);
  expect(await emitted("apart")).toEqual([chunks(1), chunks(2)]);
});

test("what a handler has left behind in its process does nothing in the next job there", async () => {
  const ids: string[] = [];
  for (const kind of ["next", "leaves", "next"]) {
    ids.push(await start(server, "apart", kind, { which: ids.length }));
    await until(server.service, ids.at(-1)!);
  }
  const [first, , last] = await Promise.all(ids.map((id) => server.service.get(JOBS).get(id)));

  expect(last!.result).toEqual(first!.result);
  expect(last!.result).toEqual(["own", expect.any(Number)]);
  expect((await server.service.get(JOBS).log(ids[2]!)).map(({ entry }) => entry)).not.toContainEqual(
    expect.objectContaining({ name: "left" }),
  );
  expect(did(ids[1]!)).toEqual([]);
});

test("an isolated agent that asks for a part of a plugin gets an error that says what to do instead", async () => {
  const { error } = await until(server.service, await start(server, "apart", "plugin"));

  expect(error).toMatch(/agent without isolate .* as a child \(job\.start\), or call the service's API/);
});

test("a step that begins while the job is being stopped is recorded as cut short", async () => {
  const id = await start(server, "apart", "busy");
  await expect.poll(() => did(id), { timeout: 30_000 }).toEqual(["turn"]);
  await server.service.get(RUNNER).stop(id);
  const { status, entries } = (await story(server, id, "apart")) as { status: string; entries: object[] };

  expect(status).toBe("cancelled");
  expect(did(id)).toEqual(["turn", "next"]);
  const tries = entries.filter((entry) => (entry as { name?: string }).name === "next");
  expect(tries).toEqual([
    expect.objectContaining({ type: "attempt", attempt: 1, error: "The run ended before the step" }),
  ]);
});

test("a step that ends the process of its agent before the service has let it begin is the one that is named", async () => {
  const id = await start(server, "apart", "exits");
  const { entries, error } = (await story(server, id, "apart")) as { entries: object[]; error: string };

  expect(error).toBe('The process of agent "agent" exited with code 7 while step "exits" was under way');
  expect(entries).toContainEqual(expect.objectContaining({ type: "call", name: "exits", attempts: 1 }));
  expect(did(id)).toEqual(["exits"]);
});

test("a service that closes waits for a step that begins meanwhile, and does not repeat it", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "isolated-steps-"));
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  const options = { agents, store: undefined, dataDir };
  let id = "";
  {
    await using server = await testServer(options);
    id = await start(server, "apart", "busy", { which: 1 });
    await expect.poll(() => did(id), { timeout: 30_000 }).toEqual(["turn"]);
  }
  const closed = did(id);
  await using server = await testServer(options);
  const { status, entries } = (await story(server, id, "apart")) as { status: string; entries: object[] };

  expect(closed).toEqual(["turn", "next"]);
  expect(status).toBe("completed");
  // The turn is repeated, and no step is.
  expect(did(id)).toEqual(["turn", "next", "turn", "last"]);
  expect(entries.filter((entry) => "name" in entry && entry.name === "next")).toHaveLength(1);
});

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { type Runtime, Session } from "node:inspector";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AgentDefinition, JobHandle } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { expect, onTestFinished, test } from "vitest";
import { type StartTimer, startTimer } from "../../src/core/base/timer.ts";
import { IsolatedRun } from "../../src/core/runs/isolation/isolated-run.ts";
import type { Effect, FromAgent } from "../../src/core/runs/isolation/messages.ts";
import { RemoteHandler } from "../../src/core/runs/isolation/remote-handler.ts";
import { Run } from "../../src/core/runs/replay/run.ts";

/** Sizes of the maps and sets of an object and of its parts, private ones too, by their paths. */
function sizesOf(object: object): Record<string, number> {
  const session = new Session();
  session.connect();
  const sizes: Record<string, number> = {};
  const seen = new Set<string>();
  const look = (objectId: string, path: string, depth: number): void => {
    session.post("Runtime.getProperties", { objectId, ownProperties: true }, (error, found) => {
      if (error) throw error;
      for (const { name, value } of [...found.result, ...((found as Private).privateProperties ?? [])]) {
        if (!value?.objectId) continue;
        const here = `${path}.${name}`;
        if (value.subtype === "map" || value.subtype === "set")
          sizes[here] = Number(/\((\d+)\)/.exec(value.description ?? "")?.[1]);
        else if (depth > 0 && PARTS.includes(value.className ?? "") && !seen.has(value.className!)) {
          seen.add(value.className!);
          look(value.objectId, here, depth - 1);
        }
      }
    });
  };
  Object.assign(globalThis, { inspectedObject: object });
  session.post("Runtime.evaluate", { expression: "globalThis.inspectedObject" }, (error, { result }) => {
    if (error) throw error;
    look(result.objectId!, result.className!, 2);
  });
  Reflect.deleteProperty(globalThis, "inspectedObject");
  session.disconnect();
  return sizes;
}

/** What the type of the answer does not have. */
interface Private {
  readonly privateProperties?: readonly Runtime.PropertyDescriptor[];
}

const PARTS = [
  ...["Activity", "ReplayGate", "PendingCalls", "Questions", "RunClock", "RunLife", "RunLedger"],
  ...["Suspension", "Limits", "Patience"],
];

const MODULE = `
export const worker = {
  name: "Apart", version: "1.0.0",
  methods: { job_start: { fields: [{ name: "n", field_type: "IntegerField", default: 1 }], run: async ({ job, fields }) => {
    const item = await job.openCase({ id: job.id + "-case", name: "A case" });
    for (let n = 0; n < fields.n; n++) {
      await job.step("plain", () => n);
      await job.step("info", ({ signal, report }) => { report({ cost: 0 }); return signal.aborted; });
      await job.step("timed", async () => 1, { timeout: "1h" });
      await job.step("throws", () => { throw new Error("no"); }, { timeout: "1h" }).catch(() => {});
      await job.step("again", ({ attempt }) => { if (attempt < 2) throw new Error("no"); }, { retries: 2, retryIf: () => true, backoff: { initial: "1ms" } });
      await item.step("of the case", () => n);
      await item.update({ name: "noted" });
      await job.sleep("1ms");
      await item.ask("which" + n, { question: "Which?", fields: [{ name: "text" }], deadline: "1ms", onTimeout: "default" });
      await job.waitFor("never", { deadline: "1ms" }).catch(() => {});
    }
    return "done";
  } } },
};
`;

/** Objects of a class whose method is called, until the test ends. */
function called<T extends object>(prototype: T, name: keyof T & string): T[] {
  const found: T[] = [];
  const method = prototype[name] as (...given: unknown[]) => unknown;
  Object.assign(prototype, {
    [name](this: T, ...given: unknown[]) {
      found.push(this);
      return method.apply(this, given);
    },
  });
  onTestFinished(() => void Object.assign(prototype, { [name]: method }));
  return found;
}

test("what a run keeps at its end does not grow with its calls", async () => {
  const folder = await mkdtemp(join(tmpdir(), "run-maps-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const module = join(folder, "agent.mjs");
  await writeFile(module, MODULE);
  const { worker } = (await import(module)) as { worker: AgentDefinition };
  const [runs, isolated] = [called(Run.prototype, "execute"), called(IsolatedRun.prototype, "start")];
  const agents = [
    { ...worker, name: "Here" },
    { ...worker, isolate: { module } },
  ];
  await using server = await testServer({ agents });

  for (const agent of ["here", "apart"]) {
    for (const n of [2, 6]) {
      const { job } = await server.run(agent, { fields: { n } });
      expect(job).toMatchObject({ status: "completed" });
    }
  }

  const sizes = runs.map(sizesOf);
  expect(Object.keys(sizes[0]!).length).toBeGreaterThan(5);
  // The agent leaves its case open.
  for (const size of sizes)
    expect(Object.entries(size).filter(([, entries]) => entries > 0)).toEqual([["Run.openCases", 1]]);
  expect(sizes[1]).toEqual(sizes[0]);
  expect(sizes[3]).toEqual(sizes[2]);
  const there = isolated.map(sizesOf);
  expect(Object.values(there[0]!).length).toBeGreaterThan(5);
  expect(there[1]).toEqual(there[0]);
});

test("what the process of an isolated agent keeps at the end of a run does not grow with its calls", async () => {
  const keeps = async (steps: number): Promise<Record<string, number>> => {
    let finish = () => {};
    const finished = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const agent = {
      name: "Apart",
      version: "1.0.0",
      methods: {
        job_start: {
          fields: [],
          run: async ({ job }: { job: JobHandle }) => {
            for (let n = 0; n < steps; n++) await job.step("step", ({ signal }) => signal.aborted);
          },
        },
      },
    } as unknown as AgentDefinition;
    let seq = 1;
    const settle = (id: number, value: unknown) =>
      handler.take({
        type: "settle",
        seq: ++seq,
        id,
        turn: seq,
        isBehindRecord: true,
        mayBegin: false,
        value,
      });
    const take = (message: FromAgent): void => {
      if (message.type === "ran") settle(message.id, message.value);
      if (message.type !== "effects") return;
      for (const effect of message.effects as readonly Effect[]) {
        if (effect.type === "ended") finish();
        if (effect.type === "call")
          handler.take({ type: "run", id: effect.id, attempt: 1, idempotencyKey: "key" });
      }
    };
    const handler = new RemoteHandler(agent, (message) => setImmediate(take, message), 1);
    const job = { id: "job-1", context: {} };
    handler.take({
      ...{ type: "start", of: 1, seq, turn: 1, job, fields: {}, parameters: {}, changes: [] },
      ...{ isBehindRecord: true, mayBegin: false },
    });
    await finished;
    return sizesOf(handler);
  };

  const few = await keeps(2);
  expect(Object.keys(few).length).toBeGreaterThan(2);
  expect(await keeps(20)).toEqual(few);
});

const TIMED = `
const failed = () => { throw new Error("no"); };
const timed = { timeout: "1h" };
export const worker = {
  name: "Apart", version: "1.0.0",
  methods: { job_start: { timeout: 7200, run: async ({ job }) => {
    await job.step("returns", () => 1, timed);
    await job.step("resolves", async () => 1, timed);
    await job.step("throws", failed, timed).catch(() => {});
    await job.step("rejects", async () => failed(), timed).catch(() => {});
    await job.step("gives what cannot be recorded", () => () => {}, timed).catch(() => {});
    await job.step("again", failed, { ...timed, retries: 2, retryIf: () => true, backoff: { initial: "1ms" } }).catch(() => {});
    await job.step("aborted", ({ signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))), { timeout: "1ms" }).catch(() => {});
    return "done";
  } } },
};
`;

test.each(["in the process", "isolated"])(
  "limits of time leave no timers, however steps end: %s",
  async (place) => {
    const folder = await mkdtemp(join(tmpdir(), "run-maps-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const module = join(folder, "agent.mjs");
    await writeFile(module, TIMED);
    const { worker } = (await import(module)) as { worker: AgentDefinition };
    let started = 0;
    const armed = new Set<object>();
    const watched: StartTimer = (milliseconds, fn, purpose) => {
      const one = {};
      const fire = () => {
        armed.delete(one);
        fn();
      };
      const stop = startTimer(milliseconds, fire, purpose);
      if (purpose !== "running") return stop;
      started++;
      armed.add(one);
      return () => {
        armed.delete(one);
        stop();
      };
    };
    const agent = place === "isolated" ? { ...worker, isolate: { module } } : worker;
    await using server = await testServer({ agents: [agent], startTimer: watched });

    const { job } = await server.run("apart");

    expect(job).toMatchObject({ status: "completed" });
    // Of seven steps, one of which is tried three times, and of the method.
    expect(started).toBeGreaterThanOrEqual(10);
    expect(armed.size).toBe(0);
  },
);

import { type AgentDefinition, defineAgent, type JobStartContext } from "agent-control-service";
import { JOBS, RUNNER } from "agent-control-service/plugin";
import type { Store, StoreFactory } from "agent-control-service/store";
import { createMemoryStore, testServer } from "agent-control-service/testing";
import { describe, expect, it } from "vitest";
import { SharedStore } from "../instances/_instances.ts";

function agentOf(run: (context: JobStartContext) => unknown): AgentDefinition {
  return defineAgent({ name: "Worker", version: "1.0.0", methods: { job_start: { fields: [], run } } });
}

const reviewer = agentOf(async ({ job }) => {
  const item = await job.openCase({ id: "invoice-7", name: "Invoice 7" });
  await job.sleep("30d");
  const { approved } = await item.ask("approve", {
    question: "Approve?",
    fields: [{ name: "approved", field_type: "BooleanField" }],
  });
  await item.close({ approved });
  return { approved };
});

const pings: string[] = [];
const pinger = agentOf(async ({ job }) => {
  for (const hour of ["1", "2", "3"]) {
    await job.sleep("1h");
    await job.step(`ping ${hour}`, () => pings.push(hour));
  }
  return { pings };
});

describe("testServer", () => {
  it("runs a job to its end, answers its questions and skips its waits", async () => {
    await using server = await testServer({ agents: [reviewer] });

    const { job, result, cases } = await server.run(reviewer, { answers: { approve: { approved: true } } });

    expect(job.status).toBe("completed");
    expect(result).toEqual({ approved: true });
    expect(cases).toMatchObject([
      { ref: "invoice-7", status: "completed", final_delivery: { approved: true } },
    ]);
  });

  it("names the question that has no answer", async () => {
    await using server = await testServer({ agents: [reviewer] });

    await expect(server.run("worker", { answers: { other: {} } })).rejects.toThrow(
      'Nobody answers "Approve?" of case "invoice-7"',
    );
  });

  it("returns a failed job", async () => {
    const failing = agentOf(() => Promise.reject(new Error("no luck")));
    await using server = await testServer({ agents: [failing] });

    const { job } = await server.run(failing);

    expect(job).toMatchObject({ status: "failed", error: "no luck" });
  });

  it("advances time by hours immediately, in order and no further", async () => {
    pings.length = 0;
    await using server = await testServer({ agents: [pinger] });
    const { id } = await start(server);

    await server.advance("2h");

    expect(pings).toEqual(["1", "2"]);
    expect(await statusOf(server, id)).toBe("in_progress");

    await server.advance("1h");

    expect(pings).toEqual(["1", "2", "3"]);
    expect(await statusOf(server, id)).toBe("completed");
  });

  it("lets a question expire at its deadline", async () => {
    const asking = agentOf(async ({ job }) => {
      const item = await job.openCase({ id: "one", name: "One" });
      return item.ask("which", {
        question: "Which?",
        fields: [{ name: "which", field_type: "CharField" }],
        deadline: "3d",
        onTimeout: "default",
        default: { which: "none" },
      });
    });
    await using server = await testServer({ agents: [asking] });
    const { id } = await start(server);

    await server.advance("71h");
    expect(await statusOf(server, id)).toBe("awaiting");
    await server.advance("1h");

    const job = await server.service.get(JOBS).get(id);
    expect(job.result).toEqual({ which: "none" });
  });

  it("keeps stored data across a crash, and continues with it", async () => {
    let calls = 0;
    const worker = agentOf(async ({ job }) => {
      const first = await job.step("first", () => ++calls);
      await job.sleep("1d");
      return { first };
    });
    await using server = await testServer({ agents: [worker] });
    const { id } = await start(server);
    await server.advance("1h");
    const { url, service } = server;

    await server.crash();

    expect(server.url).not.toBe(url);
    expect(server.service).not.toBe(service);
    await server.advance("1d");
    const job = await server.service.get(JOBS).get(id);
    expect(job).toMatchObject({ status: "completed", result: { first: 1 } });
    expect(calls).toBe(1);
  });

  it("refuses a crash of a store on disk", async () => {
    await using server = await testServer({ agents: [pinger], store: undefined });

    await expect(server.crash()).rejects.toThrow("needs the store in memory");
  });

  it("crashes over a store that instances share: the next one claims the jobs immediately", async () => {
    const made: number[] = [];
    const agent = agentOf(async ({ job }) => {
      await job.step("first", () => made.push(1));
      await job.sleep("1h");
      await job.step("second", () => made.push(2));
    });
    const store = new SharedStore();
    await using server = await testServer({ agents: [agent], store: store.open });
    const { id } = (await (await server.request("/agents/worker/jobs", { json: {} })).json()) as {
      id: string;
    };
    await expect.poll(() => made).toEqual([1]);

    await server.crash();

    const status = async () => (await server.service.get(JOBS).get(id)).status;
    const owner = async () => (await server.service.get(JOBS).get(id)).owner;
    await expect.poll(owner).toBe(server.service.get(RUNNER).instance);
    await server.advance("2h");
    await expect.poll(status).toBe("completed");
    expect(made).toEqual([1, 2]);
  });

  it("advances the time only when a store that takes its time has answered", async () => {
    const slow: StoreFactory = async (context) => {
      const store = await createMemoryStore(context);
      const late = <T extends object>(part: T): T =>
        new Proxy(part, {
          get: (_, name) => {
            const method: unknown = Reflect.get(part, name);
            if (typeof method !== "function") return method;
            return async (...args: unknown[]) => {
              await new Promise((resolve) => setTimeout(resolve, 10));
              return method.apply(part, args);
            };
          },
        });
      return Object.assign(Object.create(store), {
        table: (name: "Job") => late(store.table(name)),
        log: (name: "Run") => late(store.log(name)),
        ...{ transaction: store.transaction.bind(store), close: () => store.close() },
        ...{ health: () => store.health(), stats: () => store.stats(), now: () => store.now() },
        hints: store.hints,
      }) as Store;
    };
    const schedules = [{ cron: "0 * * * *", agent: "worker" }];
    await using server = await testServer({ agents: [agentOf(() => "done")], schedules, store: slow });

    await server.advance("3h");

    expect((await server.service.get(JOBS).list({})).total).toBe(3);
  });
});

interface Server {
  request(path: string, init?: { json: unknown }): Promise<Response>;
}

async function start(server: Server): Promise<{ id: string }> {
  const answer = await server.request("/agents/worker/jobs", { json: { job_fields: {} } });
  return (await answer.json()) as { id: string };
}

async function statusOf(server: Server, id: string): Promise<string> {
  return ((await (await server.request(`/jobs/${id}`)).json()) as { status: string }).status;
}

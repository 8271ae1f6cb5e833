// @area core
import { testServer } from "agent-control-service/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { ServiceError } from "../../src/core/base/errors.ts";
import { STORE } from "../../src/core/service/tokens.ts";
import { createMemoryStore } from "../../src/core/store/memory-store.ts";
import type { Store, StoreFactory, Transaction } from "../../src/core/store/store.ts";
import { greeter } from "../_setup.ts";
import { SharedStore, startInstances } from "./_instances.ts";

type Commit = Store["transaction"];

/** A store that several have, with another way to commit. */
function withCommits(change: (commit: Commit) => Commit): StoreFactory {
  const shared = new SharedStore();
  return async (context) => {
    const store = await shared.open(context);
    const transaction = change((...args: Parameters<Commit>) => store.transaction(...args) as never);
    return new Proxy(store, {
      get: (_, name) => (name === "transaction" ? transaction : Reflect.get(store, name)),
    });
  };
}

const health = async (server: Awaited<ReturnType<typeof testServer>>) => {
  const response = await server.service.fetch(new Request("http://host/.well-known/health"));
  return { code: response.status, ...((await response.json()) as Record<string, unknown>) };
};

describe("an instance that shares a store", () => {
  it("is ready once it has run a probe job, of which nothing is left or was announced", async () => {
    const announced: string[] = [];
    const [one, two] = await startInstances([
      {
        plugins: [
          {
            name: "listener",
            setup: ({ hooks }) => {
              for (const name of ["job:created", "job:changed", "job:finished", "job:deleted"] as const)
                hooks.on(name, () => void announced.push(name));
            },
          },
        ],
      },
      {},
    ]);

    expect(await health(one)).toMatchObject({ code: 200, status: "healthy", probe: "done" });
    expect(await health(two)).toMatchObject({ code: 200, probe: "done" });
    const store = one.service.get(STORE);
    expect((await store.table("Probe").list({ sort: "id" })).total).toBe(0);
    expect((await store.table("Job").list({})).total).toBe(0);
    expect(announced).toEqual([]);
  });

  it("does not start where a write of an earlier run would be stored", async () => {
    const store = withCommits((commit) => (work) => commit(work));

    const started = testServer({ agents: [greeter], store });

    await expect(started).rejects.toThrow(/accepted a write of an earlier run/);
  });

  it("does not start where steps get lost", async () => {
    const store = withCommits(
      (commit) => (work, options) =>
        options?.fence?.table === "Probe" && options.fence.epoch === 2
          ? commit((tx) => work(new Proxy(tx, { get: forgetful }) as Transaction), options)
          : commit(work, options),
    );

    await expect(testServer({ agents: [greeter], store })).rejects.toThrow(/0 steps .* one was stored/);
  });

  it("is unhealthy until its probe job has run, and does not wait for it to start", async () => {
    let isDown = true;
    const store = withCommits((commit) => async (work, options) => {
      if (isDown && options?.fence?.table === "Probe") throw new ServiceError("storage_error", "No answer");
      return commit(work, options);
    });
    const server = await testServer({ agents: [greeter], store });
    onTestFinished(() => server[Symbol.asyncDispose]());

    const before = await health(server);
    isDown = false;

    expect(before).toMatchObject({ code: 503, status: "unhealthy", probe: "pending" });
    await expect.poll(() => health(server)).toMatchObject({ code: 200, probe: "done" });
  });

  it("removes the probe jobs of instances that died in the middle of theirs", async () => {
    const shared = new SharedStore();
    const [one] = await startInstances([{}], shared);
    const rows = one.service.get(STORE).table("Probe");
    const row = {
      id: "probe-left",
      created_at: new Date().toISOString(),
      owner: null,
      run_count: 1,
      steps: 0,
    };
    await rows.insert(row);
    await startInstances([{}], shared);
    const young = await rows.get(row.id);
    shared.ahead = 3_700_000;

    await startInstances([{}], shared);

    expect([young?.id, await rows.get(row.id)]).toEqual([row.id, undefined]);
  });
});

it("a service that has its store for itself runs no probe job", async () => {
  const server = await testServer({ agents: [greeter], store: createMemoryStore });
  onTestFinished(() => server[Symbol.asyncDispose]());

  expect(await health(server)).not.toHaveProperty("probe");
});

function forgetful(tx: object, name: string | symbol): unknown {
  if (name === "change") return async () => undefined;
  const member: unknown = Reflect.get(tx, name);
  return typeof member === "function" ? member.bind(tx) : member;
}

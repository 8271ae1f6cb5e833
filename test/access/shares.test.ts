import { hash } from "node:crypto";
import { defineAgent } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import type { Role } from "../../src/core/models/access.ts";

const HOLDERS: readonly { name: string; role: Role; workspace?: string }[] = [
  { name: "one", role: "starter" },
  { name: "two", role: "starter" },
  { name: "acme", role: "operator", workspace: "acme" },
  { name: "acme-too", role: "operator", workspace: "acme" },
  { name: "operator", role: "operator" },
];
const keyOf = (name: string) => `svck_test_${name}_${"k".repeat(43)}`;

/** A service whose only place is taken, and whose queue has room for ten. */
async function fill() {
  let release = (): void => {};
  const busy = new Promise<void>((resolve) => {
    release = resolve;
  });
  const slow = defineAgent({
    name: "Slow",
    version: "1.0.0",
    methods: { job_start: { run: ({ job }) => job.step("work", () => busy) } },
  });
  const keys = HOLDERS.map((one) => ({ ...one, sha256: hash("sha256", keyOf(one.name), "hex") }));
  const limits = { maxConcurrentJobs: 1, maxQueuedJobs: 10 };
  const server = await testServer({ agents: [slow], access: { keys }, ...limits });
  onTestFinished(async () => {
    release();
    await server[Symbol.asyncDispose]();
  });
  const start = (name?: string, json: object = {}) =>
    server.request("/agents/slow/jobs", { key: name === undefined ? server.key : keyOf(name), json });
  expect((await start()).status).toBe(202);
  return {
    start,
    fork: (name: string, id: string) =>
      server.request(`/admin/api/jobs/${id}/fork`, { key: keyOf(name), json: { from: "start" } }),
    /** How many jobs a caller can start until it is refused, and the refusal. */
    async until429(name?: string) {
      for (let started = 0; started < 20; started++) {
        const response = await start(name);
        if (response.status !== 202) return { started, status: response.status, text: await response.text() };
      }
      throw new Error("it was never refused");
    },
  };
}

describe("the queue", () => {
  it("has room for others, and for the API key, whatever one starter starts", async () => {
    const { until429 } = await fill();

    const one = await until429("one");
    const two = await until429("two");
    const root = await until429();

    expect([one.started, two.started, root.started]).toEqual([5, 4, 1]);
    expect([one.status, two.status, root.status]).toEqual([429, 429, 429]);
    expect(root.text).toContain("10 jobs are already queued");
  });

  it("says to who sees a part only that it is full, not how much others have started", async () => {
    const { until429 } = await fill();
    await until429();

    const { started, status, text } = await until429("one");

    expect([started, status]).toEqual([0, 429]);
    expect(text).toContain("Too many jobs are queued");
    expect((JSON.parse(text) as { error: string }).error).not.toMatch(/\d/);
  });

  it("has a share for a workspace, however many keys are limited to it", async () => {
    const { until429 } = await fill();

    const first = await until429("acme");
    const second = await until429("acme-too");
    const other = await until429("one");

    expect([first.started, second.started, other.started]).toEqual([5, 0, 4]);
  });

  it("has the same share for forks", async () => {
    const { start, fork } = await fill();
    const { id } = (await (await start("acme")).json()) as { id: string };

    const statuses: number[] = [];
    for (let n = 0; n < 5; n++) statuses.push((await fork("acme", id)).status);
    const refused = (await (await fork("acme", id)).json()) as { error: string };

    expect(statuses).toEqual([200, 200, 200, 200, 429]);
    expect(refused.error).toBe("Too many jobs of this caller are queued");
  });

  it("has all of its room for callers who see everything", async () => {
    const { until429 } = await fill();

    expect((await until429("operator")).started).toBe(10);
  });

  it("gives a request that is sent again its job, also where the caller's share is used up", async () => {
    const { start, until429 } = await fill();
    const json = { job_context: { job_id: "again" } };
    await start("one", json);
    await until429("one");

    const again = await start("one", json);

    expect([again.status, ((await again.json()) as { id: string }).id]).toEqual([202, "again"]);
  });
});

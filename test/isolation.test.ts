import { defineAgent } from "agent-control-service";
import { createToken, GATE, HOOKS, JOBS, type Plugin, ROUTER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { describe, expect, it } from "vitest";
import { greeter } from "./_setup.ts";
import { storeJob } from "./http/_jobs.ts";

const other = defineAgent({
  name: "Other",
  version: "2.0.0",
  methods: { job_start: { run: () => "done" } },
});

describe("two servers in one process", () => {
  it("share neither agents, keys, jobs nor streams", async () => {
    await using one = await testServer({ agents: [greeter], apiKey: "key-of-the-first" });
    await using two = await testServer({ agents: [other], apiKey: "key-of-the-second" });
    await storeJob(one.service, "job-1");

    const own = await one.request("/jobs/job-1/stream", { method: "HEAD" });
    const foreign = await two.request("/jobs/job-1/stream");
    const wrongKey = await two.request("/jobs/job-1/stream", { key: one.key });

    expect([own.status, foreign.status, wrongKey.status]).toEqual([200, 404, 401]);
    expect(await two.service.get(JOBS).find("job-1")).toBeUndefined();
    expect(one.url).not.toBe(two.url);
  });

  it("share neither parts, hooks, routes nor counted wrong keys", async () => {
    const COUNTER = createToken<{ count: number }>("counter");
    const counter: Plugin = {
      name: "counter",
      setup: ({ provide, hooks, get }) => {
        provide(COUNTER, () => ({ count: 0 }));
        hooks.on("job:created", () => void get(COUNTER).count++);
      },
    };
    await using one = await testServer({ agents: [greeter], plugins: [counter] });
    await using two = await testServer({ agents: [greeter], plugins: [counter] });

    await storeJob(one.service, "job-1");
    for (let attempt = 0; attempt < 12; attempt++) await one.request("/jobs/x/stream", { key: "wrong" });

    expect(one.service.get(COUNTER).count).toBe(1);
    expect(two.service.get(COUNTER).count).toBe(0);
    for (const token of [HOOKS, ROUTER, GATE]) {
      expect(one.service.get<unknown>(token)).not.toBe(two.service.get<unknown>(token));
    }
    expect((await one.request("/jobs/x/stream", { key: "wrong" })).status).toBe(429);
    expect((await two.request("/jobs/x/stream", { key: "wrong" })).status).toBe(401);
  });

  it("start and end independently", async () => {
    await using one = await testServer({ agents: [greeter] });
    await using two = await testServer({ agents: [greeter] });

    await one.service.close();

    expect((await two.request("/openapi.json")).status).toBe(200);
    await expect(one.request("/openapi.json")).rejects.toThrow();
  });
});

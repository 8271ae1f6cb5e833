import { hash } from "node:crypto";
import { type AgentDefinition, defineAgent } from "agent-control-service";
import { definePlugin, EVENTS } from "agent-control-service/plugin";
import type { StoreFactory } from "agent-control-service/store";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { expect, it, onTestFinished } from "vitest";
import type { AttentionItem } from "../../src/core/models/attention.ts";
import { createMemoryStore } from "../../src/core/store/memory-store.ts";
import { DeliveryError } from "../../src/plugin.ts";
import { startInstances } from "../instances/_instances.ts";
import { agentOf } from "./_agent.ts";
import { jobContext, until } from "./_jobs.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Polls a carrier: once for all but the jobs that hang. */
function poller(version = "1.0.0"): { readonly agent: AgentDefinition; readonly release: () => void } {
  let release = () => {};
  const hanging = new Promise<void>((resolve) => {
    release = resolve;
  });
  const agent = defineAgent({
    name: "Poller",
    version,
    methods: {
      job_start: {
        fields: v.object({ does: v.optional(v.string()), error: v.optional(v.string()) }),
        async run({ job, fields }) {
          for (const n of [1, 2, 3]) await job.step(`poll ${n}`, () => n);
          if (fields.does === "ask") {
            const item = await job.openCase({ id: `case-${job.id}`, name: "A question" });
            await item.ask("well", { question: "Is it well?", fields: v.object({ well: v.boolean() }) });
          }
          if (fields.does === "fail") throw new Error(fields.error);
          if (fields.does === "hang") await job.step("poll 4", () => hanging);
          if (fields.does === "first") await job.step("compute", () => hanging);
          return "done";
        },
      },
    },
  });
  return { agent, release };
}
const other = agentOf(() => "other", { name: "Other" });

const keyOf = (name: string) => `svck_test_${name}_${"k".repeat(43)}`;
const keys = ["poller", "other"].map((name) => ({
  ...{ name, role: "viewer" as const, agents: [name] },
  sha256: hash("sha256", keyOf(name), "hex"),
}));

async function serve(version?: string) {
  let ahead = 0;
  const { agent, release } = poller(version);
  const server = await testServer({
    agents: [agent, other],
    access: { keys },
    clock: () => new Date(Date.now() + ahead),
  });
  onTestFinished(async () => {
    release();
    await server[Symbol.asyncDispose]();
  });
  const pass = (milliseconds: number) => {
    ahead += milliseconds;
  };
  return { server, pass };
}

const start = (server: TestServer, id: string, job_fields: object = {}) =>
  server.request("/agents/poller/jobs", { json: { job_context: jobContext(id), job_fields } });
const attention = async (server: TestServer, key?: string) => {
  const response = await server.request("/attention", key === undefined ? {} : { key });
  return ((await response.json()) as { items: AttentionItem[] }).items;
};
const dashboard = async (server: TestServer) =>
  (await server.request("/admin/", { headers: { accept: "text/html" } })).text();
const metrics = async (server: TestServer) => (await server.request("/metrics")).text();

it("nothing needs a person while jobs run and complete", async () => {
  const { server } = await serve();
  await start(server, "one");
  await until(server.service, "one");

  expect(await attention(server)).toEqual([]);
  expect(await dashboard(server)).toContain("Nothing needs you.");
  expect(await metrics(server)).not.toContain("svc_attention{");
});

it("an open question is named as what is left, and is no alert before its deadline", async () => {
  const { server } = await serve();
  await start(server, "asks", { does: "ask" });
  await expect.poll(() => dashboard(server)).toContain("Only the open questions need you.");

  expect(await attention(server)).toEqual([]);
});

it("a step that takes far longer than it ever has is stuck; one without a history is not", async () => {
  const { server, pass } = await serve();
  await start(server, "hangs", { does: "hang" });
  await start(server, "new", { does: "first" });
  const steps = async (id: string) => (await server.request(`/jobs/${id}/calls`)).json();
  for (const id of ["hangs", "new"]) await expect.poll(() => steps(id)).toHaveLength(3);

  pass(MINUTE / 2);
  expect(await attention(server)).toEqual([]);
  pass(HOUR);
  const items = await attention(server);

  expect(items).toMatchObject([
    { kind: "stuck", severity: "bad", agent: "poller", count: 1, job_ids: ["hangs"], reason: null },
  ]);
  expect(items[0]!.text).toMatch(
    /^1 job of poller is stuck: step "poll 4" has run for 1 h, usually it takes/,
  );
  expect(await dashboard(server)).toContain("1 stuck");
  expect(await metrics(server)).toContain('svc_attention{kind="stuck",agent="poller"} 1');
  expect(await attention(server, keyOf("other"))).toEqual([]);
  expect(await attention(server, keyOf("poller"))).toMatchObject([{ kind: "stuck" }]);
});

it("an instance reports jobs that are stuck at another one", async () => {
  let ahead = 0;
  const clock = () => new Date(Date.now() + ahead);
  const { agent, release } = poller();
  const [one, two] = await startInstances([
    { agents: [agent], clock },
    { agents: [agent], clock },
  ]);
  onTestFinished(release);
  await start(one, "hangs", { does: "hang" });
  await expect.poll(async () => (await one.request("/jobs/hangs/calls")).json()).toHaveLength(3);
  ahead += HOUR;

  for (const server of [one, two])
    expect(await attention(server)).toMatchObject([{ kind: "stuck", agent: "poller", job_ids: ["hangs"] }]);
});

it("a reason of failures is new for a day, and needs a person again when it grows", async () => {
  const { server, pass } = await serve("3.1.0");
  const fail = async (id: string, error: string) => {
    await start(server, id, { does: "fail", error });
    await until(server.service, id);
  };
  await fail("a1", "connect ECONNREFUSED 10.0.0.1:443");
  await fail("a2", "connect ECONNREFUSED 10.0.0.2:443");
  const [item, ...more] = await attention(server);

  expect(more).toEqual([]);
  expect(item).toMatchObject({ kind: "failures", severity: "bad", agent: "poller", count: 2 });
  expect(item!.text).toMatch(/^2 jobs failed for a new reason in poller 3\.1\.0, first .* ago: connect/);
  expect(await dashboard(server)).toContain(`status=failed&amp;failure=${item!.reason}`);
  expect(await attention(server, keyOf("other"))).toEqual([]);

  pass(DAY + HOUR);
  expect(await attention(server)).toEqual([]);
  for (const n of [1, 2, 3, 4]) await fail(`b${n}`, "connect ECONNREFUSED 10.0.0.3:443");
  pass(MINUTE);
  expect(await attention(server)).toEqual([]);
  await fail("b5", "connect ECONNREFUSED 10.0.0.3:443");
  pass(MINUTE);
  expect(await attention(server)).toMatchObject([
    { kind: "failures", count: 5, text: expect.stringContaining("a reason that grows") },
  ]);
});

it("events that were given up, and paused agents, need a person; of agents that are not seen, nobody hears", async () => {
  const refusing = definePlugin({
    name: "refusing",
    dependsOn: ["events"],
    setup: ({ get }) =>
      get(EVENTS).addTarget({
        name: "refusing",
        send: async () => {
          throw new DeliveryError("no", { permanent: true });
        },
      }),
  });
  const server = await testServer({
    agents: [poller().agent, other],
    plugins: [refusing()],
    access: { keys },
  });
  onTestFinished(() => server[Symbol.asyncDispose]());
  await server.service.get(EVENTS).post("refusing", { stream: "s", type: "custom", body: {} });
  await server.request("/admin/api/agents/poller/pause", { method: "POST" });
  const kinds = async (key?: string) => (await attention(server, key)).map(({ kind }) => kind);

  await expect.poll(() => kinds()).toEqual(["deliveries", "paused"]);
  expect(await kinds(keyOf("poller"))).toEqual(["paused"]);
  expect(await kinds(keyOf("other"))).toEqual([]);
  expect(await dashboard(server)).toMatch(/Health<\/span> 1 problem/);
});

it("a restored store that may lack writes needs a person, and is not well on its cards; a complete one is", async () => {
  const serveRestored = (may_lack: boolean) => {
    const shipping = { lag: 0, groups: 0, bytes: 0, last_at: null, error: null, set_aside: [] };
    const restored = { as_of: "2026-11-28T15:00:00.000Z", may_lack };
    const store: StoreFactory = async (context) => {
      const health = () => ({ writable: true, shipping: { ...shipping, restored } });
      return Object.assign(await createMemoryStore(context), { health });
    };
    return testServer({ agents: [other], store });
  };
  const text =
    "The store was restored from the storage as of 2026-11-28 15:00:00 UTC: later writes may be missing.";
  await using lacking = await serveRestored(true);
  await using whole = await serveRestored(false);

  expect(await attention(lacking)).toMatchObject([{ kind: "store", severity: "warn", text }]);
  const page = await dashboard(lacking);
  expect(page).toContain(text);
  expect(page).toContain("restored, later writes may be missing");
  expect(await attention(whole)).toEqual([]);
  for (const [server, words] of [
    [lacking, /Storage<\/h2><\/div>\s*<span class="st st-degraded">/],
    [whole, /Storage<\/h2><\/div>\s*<span class="st st-healthy">/],
  ] as const) {
    const html = await (await server.request("/admin/server", { headers: { accept: "text/html" } })).text();
    expect(html).toMatch(words);
  }
});

// @long
import { hash } from "node:crypto";
import { defineAgent } from "agent-control-service";
import { JOBS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";

const HOUR = 3_600_000;
const FIELDS = v.object({ fate: v.picklist(["completed", "failed", "awaiting"]) });
const agent = (name: string) =>
  defineAgent({
    name,
    version: "1.0.0",
    methods: {
      job_start: {
        fields: FIELDS,
        async run({ job, fields: { fate } }) {
          const item = await job.openCase({ id: `case-${job.id}`, name: `title of ${job.id}` });
          await item.step("work", () => "done", { cost: 0.5 });
          if (fate === "awaiting")
            await item.ask({ question: "Fine?", fields: v.object({ fine: v.boolean() }) });
          // The reason is the same for all.
          if (fate === "failed") throw new Error("the disk is full");
          await item.close();
          return "done";
        },
      },
    },
  });

const HOLDERS = [
  { name: "customer", role: "viewer", workspace: "acme" },
  { name: "program", role: "starter" },
  { name: "team", role: "viewer", agents: ["seen"] },
] as const;
const keyOf = (name: string) => `svck_test_${name}_${"k".repeat(43)}`;

let server: TestServer;
beforeAll(async () => {
  const keys = HOLDERS.map((one) => ({ ...one, sha256: hash("sha256", keyOf(one.name), "hex") }));
  server = await testServer({ agents: [agent("Seen"), agent("Hidden")], access: { keys } });
  // The columns of charts stay the same during the test.
  await server.advance(`${Math.ceil(HOUR - (Date.now() % HOUR) + 60_000)}ms`);
});
afterAll(() => server[Symbol.asyncDispose]());

const FATES = FIELDS.entries.fate.options;
const STATUS = { completed: "completed", failed: "failed", awaiting: "awaiting" } as const;
async function start(
  id: string,
  fate: (typeof FATES)[number],
  by: { slug: string; key?: string; workspace: string },
) {
  const { slug, key = server.key, workspace } = by;
  const json = {
    job_context: { job_id: id, ...(key === server.key && { workspace_id: workspace }) },
    job_fields: { fate },
  };
  const response = await server.request(`/agents/${slug}/jobs`, { key, json });
  if (response.status !== 202) throw new Error(await response.text());
  await expect.poll(async () => (await server.service.get(JOBS).get(id)).status).toBe(STATUS[fate]);
}

const READS = [
  ...["24h", "7d", "30d"].map((range) => `/admin/api/dashboard?range=${range}`),
  ...["/admin/api/failures", "/admin/api/failures?days=1", "/admin/api/stats", "/admin/api/recent-activity"],
  ...["/attention", "/admin/api/jobs", "/admin/api/cases", "/admin/api/inbox", "/admin/api/agents"],
];
async function readAll(name: string): Promise<Record<string, unknown>> {
  // Figures are kept for up to a minute.
  await server.advance("2m");
  const found: Record<string, unknown> = {};
  for (const path of READS) {
    const response = await server.request(path, {
      key: keyOf(name),
      headers: { accept: "application/json" },
    });
    // Time passes between two reads.
    const text = (await response.text()).replaceAll(/\d+ min ago/g, "lately");
    found[path] = response.ok ? JSON.parse(text) : response.status;
  }
  return found;
}

describe.each(HOLDERS)("the figures of $name", ({ name }) => {
  it("stay as they are, whatever happens to jobs that it does not see", async () => {
    const own = { slug: "seen", ...(name === "program" ? { key: keyOf(name) } : {}), workspace: "acme" };
    for (const fate of FATES) await start(`own-${name}-${fate}`, fate, own);
    const before = await readAll(name);
    const hidden = { slug: name === "team" ? "hidden" : "seen", workspace: "other" };

    for (const fate of FATES)
      for (const n of [1, 2, 3, 4, 5, 6]) await start(`hidden-${name}-${fate}-${n}`, fate, hidden);
    await server.request(`/jobs/hidden-${name}-failed-1`, { method: "DELETE" });
    const { items } = (await (await server.request("/admin/api/failures")).json()) as {
      items: { failure: string; last_at: string }[];
    };
    for (const { failure, last_at } of items) {
      const json = { state: "resolved", until: last_at };
      const marked = await server.request(`/admin/api/failures/${failure}/mark`, { json });
      expect(marked.status).toBe(200);
      const opened = await server.request(`/admin/api/failures/${failure}/mark`, { json: { state: "open" } });
      expect(opened.status).toBe(200);
    }

    expect(await readAll(name)).toEqual(before);
    expect(Object.values(before).filter((one) => typeof one === "number")).toEqual([]);
    const figures = before["/admin/api/dashboard?range=24h"] as {
      cost_today: number;
      jobs: { total: number };
    };
    expect(figures.jobs.total).toBeGreaterThanOrEqual(FATES.length);
    expect(figures.cost_today).toBe(figures.jobs.total * 0.5);
  });

  it("say of a reason that somebody has resolved nothing about when others failed for it", async () => {
    const read = async (key: string) =>
      (await (await server.request("/admin/api/failures", { key })).json()) as {
        items: { failure: string; last_at: string; mark: { state: string; until: string | null } | null }[];
      };
    const [reason] = (await read(server.key)).items;
    const json = { state: "resolved", until: reason!.last_at };
    await server.request(`/admin/api/failures/${reason!.failure}/mark`, { json });
    const [whole, part] = [await read(server.key), await read(keyOf(name))];
    await server.request(`/admin/api/failures/${reason!.failure}/mark`, { json: { state: "open" } });

    expect(whole.items[0]!.mark).toMatchObject({ state: "resolved", until: reason!.last_at });
    expect(part.items[0]!.mark).toMatchObject({ state: "resolved", until: null });
  });
});

it("an open page of who sees a part hears nothing of hundreds of changes of others", async () => {
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const follow = async (key: string) => {
    const stream = await server.request("/admin/api/live", { key, signal: stop.signal });
    const heard = { text: "" };
    void (async () => {
      for await (const bytes of stream.body!) heard.text += Buffer.from(bytes).toString();
    })().catch(() => {});
    await expect.poll(() => heard.text).toContain("event: hello");
    return heard;
  };
  const whole = await follow(server.key);
  const part = await follow(keyOf("customer"));
  const changesIn = ({ text }: { readonly text: string }) =>
    [...text.matchAll(/event: change\ndata: (.+)/g)].map(([, data]) => JSON.parse(data!) as Change);

  for (let round = 0; round < 20 && !changesIn(whole).some(({ more }) => more); round++) {
    const ids = Array.from({ length: 300 }, (_, n) => `many-${round}-${n}`);
    await Promise.all(
      ids.map((job_id) =>
        server.request("/agents/hidden/jobs", {
          json: { job_context: { job_id, workspace_id: "other" }, job_fields: { fate: "completed" } },
        }),
      ),
    );
    await expect.poll(() => changesIn(whole).length).toBeGreaterThan(round);
  }
  // What the open page asks for again has not changed, either.
  for (const _ of [1, 2])
    await server.request("/admin/api/dashboard", { key: keyOf("customer") }).then((one) => one.text());
  await server.advance("1m");
  await start("own-at-last", "awaiting", { slug: "seen", workspace: "acme" });
  await expect.poll(() => part.text).toContain("own-at-last");

  expect(changesIn(whole).some(({ more }) => more)).toBe(true);
  const isOwn = ({ jobs, cases }: Change) =>
    jobs.length + cases.length > 0 && [...jobs, ...cases].every((id) => id.includes("own-at-last"));
  expect(changesIn(part).filter((change) => change.more || !isOwn(change))).toEqual([]);
});

interface Change {
  readonly more: boolean;
  readonly jobs: readonly string[];
  readonly cases: readonly string[];
}

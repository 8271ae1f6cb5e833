import { hash } from "node:crypto";
import { defineAgent } from "agent-control-service";
import { JOBS, RUNNER } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { a2a } from "../../src/a2a.ts";
import { textWithoutHidden } from "../../src/core/entities/hidden-jobs.ts";
import type { Role } from "../../src/core/models/access.ts";
import { mcp } from "../../src/mcp.ts";

const fields = v.object({ how: v.picklist(["work", "wait", "fail"]) });
const child = defineAgent({
  name: "Child",
  version: "1.0.0",
  methods: {
    job_start: {
      fields,
      async run({ job, fields: { how } }) {
        if (how === "wait") await job.waitFor("never");
        if (how === "fail") throw new Error("it broke");
        const item = await job.openCase({ id: "own", name: "one case" });
        await job.read();
        await item.close();
        return "done";
      },
    },
  },
});
const parent = defineAgent({
  name: "Parent",
  version: "1.0.0",
  methods: {
    job_start: {
      fields,
      async run({ job, fields: { how } }) {
        const started = await job.start("child", { how }, { key: "one" });
        if (how === "wait") {
          await job.step("leave", () => {});
          throw new Error("the parent broke");
        }
        return started.result();
      },
    },
  },
});

/** Who sees the jobs of one of the agents, in one way or another. */
const HOLDERS: readonly { name: string; role: Role; agents: readonly string[] }[] = [
  { name: "of-children", role: "viewer", agents: ["child"] },
  { name: "of-parents", role: "viewer", agents: ["parent"] },
  { name: "children-operated", role: "operator", agents: ["child"] },
  { name: "parents-operated", role: "operator", agents: ["parent"] },
];
const keyOf = (name: string) => `svck_test_${name}_${"k".repeat(43)}`;

let server: TestServer;
/** Ids by agent. */
let ids: Record<string, string[]>;
beforeAll(async () => {
  const keys = HOLDERS.map((one) => ({ ...one, sha256: hash("sha256", keyOf(one.name), "hex") }));
  server = await testServer({
    agents: [child, parent],
    plugins: [mcp({ wait: "0s" }), a2a({ wait: "0s" })],
    access: { keys },
  });
  const jobs = server.service.get(JOBS);
  for (const how of ["work", "wait", "fail"]) {
    const json = { job_context: { job_id: `the-parent-${how}` }, job_fields: { how } };
    await server.request("/agents/parent/jobs", { json });
  }
  const open = { where: { status: ["stopped", "in_progress", "awaiting", "cancelling"] }, limit: 0 };
  const isQuiet = () => vi.waitFor(async () => expect((await jobs.list(open)).total).toBe(0), 20_000);
  await isQuiet();
  await server.service.get(RUNNER).fork("the-parent-work", { from: "start" });
  await isQuiet();
  const idsOf = (agent_name: string) => jobs.ids({ where: { agent_name } });
  ids = { parent: await idsOf("parent"), child: await idsOf("child") };
});
afterAll(() => server[Symbol.asyncDispose]());

/** All that a key may read of a job, by each road. */
async function readAll(name: string, slug: string, id: string): Promise<Record<string, string>> {
  const key = keyOf(name);
  const read = async (path: string, init: object = {}) => {
    const response = await server.request(path, { key, headers: { "a2a-version": "1.0" }, ...init });
    return [path, `${response.status} ${await response.text()}`] as const;
  };
  const call = {
    headers: { accept: "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18" },
    json: {
      ...{ jsonrpc: "2.0", id: 1, method: "tools/call" },
      params: { name: "job_status", arguments: { job_id: id } },
    },
  };
  const json = { headers: { accept: "application/json" } };
  const page = { headers: { accept: "text/html" } };
  return Object.fromEntries(
    await Promise.all([
      ...["", "/result", "/cases", "/stream", "/calls", "/export"].map((path) => read(`/jobs/${id}${path}`)),
      read(`/agents/${slug}/jobs/${id}`),
      read(`/agents/${slug}/jobs?limit=100`),
      read("/jobs?limit=100"),
      read("/attention"),
      read(`/a2a/${slug}/tasks/${id}`),
      read(`/a2a/${slug}/tasks?pageSize=100`),
      read("/mcp", call),
      ...[`/admin/api/jobs/${id}`, `/admin/api/jobs/${id}/timeline`, `/admin/api/jobs/${id}/log`].map(
        (path) => read(path, json),
      ),
      ...["/admin/api/jobs?limit=100", "/admin/api/jobs/export?format=json", "/admin/api/find?q=the"].map(
        (path) => read(path, json),
      ),
      ...["", "?tab=history", "?tab=log", "?tab=calls"].map((tab) => read(`/admin/jobs/${id}${tab}`, page)),
      ...["/admin/jobs?limit=100", `/admin/cases?job_id=${id}`].map((path) => read(path, page)),
    ]),
  );
}

describe.each(HOLDERS)("$name ($role of $agents)", ({ name, role, agents: [slug = ""] }) => {
  const others = slug === "child" ? "parent" : "child";

  it("reads its jobs without the ids of their parents, children and origins", async () => {
    const wrong: string[] = [];
    for (const id of ids[slug]!) {
      for (const [path, text] of Object.entries(await readAll(name, slug, id))) {
        const isRefused = /^\/(mcp|a2a)/.test(path) && role === "viewer";
        if (!text.startsWith(isRefused ? "403" : "200")) wrong.push(`${path}: ${text.slice(0, 100)}`);
        for (const other of ids[others]!) if (text.includes(other)) wrong.push(`${path} names ${other}`);
      }
    }

    expect(wrong).toEqual([]);
  });

  it("learns nothing by a filter about the parents and origins of its jobs", async () => {
    const count = async (query: string) =>
      Number((await server.request(`/jobs?${query}`, { key: keyOf(name) })).headers.get("x-total-count"));

    for (const other of ids[others]!) {
      expect([await count(`parent_id=${other}`), await count(`forked_from=${other}`)]).toEqual([0, 0]);
    }
  });
});

it("who sees both agents, and the API key, read who is whose", async () => {
  const jobs = (await (await server.request("/admin/api/jobs?limit=100")).json()) as {
    items: { id: string }[];
  };
  const shown = await Promise.all(
    jobs.items.map(async ({ id }) => (await server.request(`/jobs/${id}/result`)).json()),
  );
  const parents = shown.flatMap(
    (job) => (job as { parent?: { job_id: string } | null }).parent?.job_id ?? [],
  );

  expect(new Set(parents)).toEqual(new Set(ids.parent));
  expect(shown.filter((job) => (job as { forked_from?: unknown }).forked_from)).toHaveLength(1);
});

it("a text names what its reader sees, also where an id begins as a hidden one, and nothing where it names very many", async () => {
  const lookups: string[] = [];
  const hides = async (id: string) => {
    lookups.push(id);
    return id === "job-1";
  };
  const others = { hides, sees: async (id: string) => !(await hides(id)) };
  const many = Array.from({ length: 1000 }, (_, n) => `child "job-${n + 2}" failed`).join("\n");

  expect(await textWithoutHidden('child "job-1" of parent "job-10" and child "job-1"', others)).toBe(
    'child "(not visible)" of parent "job-10" and child "(not visible)"',
  );
  expect(lookups).toEqual(["job-1", "job-10"]);
  expect(await textWithoutHidden(many, others)).toBe(many.replaceAll(/job-\d+/g, "(not visible)"));
  expect(lookups).toHaveLength(2);
});

it("a token of a job reads its record without the ids of other jobs", async () => {
  const all = [...ids.child!, ...ids.parent!];
  const wrong: string[] = [];
  for (const own of all) {
    const made = (await (
      await server.request(`/jobs/${own}/tokens`, { json: { scopes: ["record"] } })
    ).json()) as { token: string };
    for (const path of [`/jobs/${own}`, `/jobs/${own}/result`, `/jobs/${own}/cases`, `/jobs/${own}/stream`]) {
      const response = await fetch(server.url + path, { headers: { authorization: `Bearer ${made.token}` } });
      const text = await response.text();
      if (response.status !== 200) wrong.push(`${path}: ${response.status}`);
      for (const other of all)
        if (other !== own && text.includes(other)) wrong.push(`${path} names ${other}`);
    }
  }

  expect(wrong).toEqual([]);
  expect(all.length).toBeGreaterThan(7);
});

// The last ones: forks are more jobs.
it.each(HOLDERS.filter(({ role }) => role === "operator"))(
  "$name names the calls of its jobs, and forks one at each, without the ids of children",
  async ({ name, agents: [slug = ""] }) => {
    const others = ids[slug === "child" ? "parent" : "child"]!;
    const texts: string[] = [];
    let forks = 0;
    const request = async (path: string, init: object = {}) => {
      const response = await server.request(path, { key: keyOf(name), ...init });
      const text = await response.text();
      texts.push(`${path} ${text}`);
      return { status: response.status, text };
    };
    for (const id of ids[slug]!) {
      const page = await request(`/admin/jobs/${id}/fork`, { headers: { accept: "text/html" } });
      const refused = await request(`/jobs/${id}/fork`, { json: { from: "no such call" } });
      expect([page.status, refused.status]).toEqual([200, 422]);
      for (const { name: from, line } of JSON.parse((await request(`/jobs/${id}/calls`)).text) as Call[]) {
        const { status } = await request(`/jobs/${id}/fork`, { json: { from } });
        expect([from, status]).toEqual([from, line === null ? expect.any(Number) : 202]);
        forks++;
      }
    }

    expect(texts.filter((text) => others.some((other) => text.includes(other)))).toEqual([]);
    expect(forks).toBeGreaterThan(2);
  },
);

interface Call {
  readonly name: string;
  readonly line: number | null;
}

import { hash } from "node:crypto";
import { defineAgent, file } from "agent-control-service";
import { STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FILE_SWEEP } from "../../src/core/service/inner-tokens.ts";
import { until } from "../runs/_jobs.ts";
import { png } from "./_gallery.ts";

const agentOf = (name: string) =>
  defineAgent({
    name,
    version: "1.0.0",
    methods: {
      job_start: {
        fields: v.object({ input: v.optional(file()) }),
        run: async ({ job, fields: { input } }) => {
          const made = await job.step("make", ({ file }) => file(`${job.id}.csv`, `job\n${job.id}\n`));
          if (input) await job.artifact("scan", input, { title: `Scan of ${job.id}` });
          return { made };
        },
      },
    },
  });

const HOLDERS = [
  { name: "legal", role: "operator", agents: ["clerk"] },
  { name: "acme", role: "viewer", workspace: "acme" },
  { name: "starter", role: "starter" },
  { name: "asked", role: "answerer" },
] as const;
const keyOf = (name: string) => `svck_test_${name}_${"k".repeat(43)}`;

let server: TestServer;
beforeAll(async () => {
  const keys = HOLDERS.map((one) => ({ ...one, sha256: hash("sha256", keyOf(one.name), "hex") }));
  server = await testServer({ agents: [agentOf("Clerk"), agentOf("Writer")], access: { keys } });
  const input = { name: "red.png", data: png(8, 8, [200, 30, 30]).toString("base64") };
  await start("clerk", { job_id: "c-1", workspace_id: "acme" }, { input });
  await start("clerk", { job_id: "c-2", workspace_id: "other" });
  await start("writer", { job_id: "w-1", workspace_id: "acme" });
  await start("writer", { job_id: "w-2", workspace_id: "other" }, {}, keyOf("starter"));
});
afterAll(() => server[Symbol.asyncDispose]());

async function start(
  slug: string,
  job_context: { job_id: string; workspace_id: string },
  job_fields = {},
  key = server.key,
) {
  const response = await server.request(`/agents/${slug}/jobs`, { key, json: { job_context, job_fields } });
  expect(response.status, await response.clone().text()).toBe(202);
  await until(server.service, job_context.job_id, ["completed"]);
}

interface Listed {
  readonly name: string;
  readonly job_id: string;
  readonly created_at: string;
}
async function list(query = "", key = server.key) {
  const response = await server.request(`/files${query}`, { key });
  expect(response.status, await response.clone().text()).toBe(200);
  return { files: (await response.json()) as Listed[], next: response.headers.get("x-next-cursor") };
}
const namesOf = async (query = "", key = server.key) =>
  (await list(query, key)).files.map(({ name }) => name).sort();
const ALL = ["c-1.csv", "c-2.csv", "red.png", "w-1.csv", "w-2.csv"];

describe("files of all jobs", () => {
  it("are listed by agent, job, type, origin, time, and texts in names and titles", async () => {
    expect(await namesOf()).toEqual(ALL);
    expect(await namesOf("?agent_name=writer")).toEqual(["w-1.csv", "w-2.csv"]);
    expect(await namesOf("?job_id=c-1")).toEqual(["c-1.csv", "red.png"]);
    expect(await namesOf("?kind=picture")).toEqual(["red.png"]);
    expect(await namesOf("?kind=data")).toEqual(["c-1.csv", "c-2.csv", "w-1.csv", "w-2.csv"]);
    expect(await namesOf("?origin=artifact")).toEqual(["red.png"]);
    expect(await namesOf("?origin=field")).toEqual([]);
    expect(await namesOf("?search=SCAN+of")).toEqual(["red.png"]);
    expect(await namesOf("?search=w-1&agent_name=clerk")).toEqual([]);
    const [newest] = (await list()).files;
    expect(await namesOf(`?since=${encodeURIComponent(newest!.created_at)}`)).toContain(newest!.name);
    expect(await namesOf("?until=2000-01-01T00:00:00Z")).toEqual([]);
    expect((await list("?kind=picture")).files[0]).toMatchObject({
      ...{ name: "red.png", type: "image/png", origin: "field", artifact: "scan", title: "Scan of c-1" },
      ...{ job_id: "c-1", agent_name: "clerk" },
    });
    expect((await server.request("/files?kind=picture&kind=pdf")).status).toBe(422);
    expect((await server.request("/files?after=none")).status).toBe(422);
  });

  it("have pages that repeat and skip none", async () => {
    const found: string[] = [];
    let after = "";
    do {
      const { files, next } = await list(`?limit=2${after && `&after=${after}`}`);
      expect(files.length).toBeLessThanOrEqual(2);
      found.push(...files.map(({ name }) => name));
      after = next ?? "";
    } while (after !== "");
    expect(found.sort()).toEqual(ALL);
  });

  it("are those of the jobs that the caller sees", async () => {
    expect(await namesOf("", keyOf("legal"))).toEqual(["c-1.csv", "c-2.csv", "red.png"]);
    expect(await namesOf("?agent_name=writer", keyOf("legal"))).toEqual([]);
    expect(await namesOf("", keyOf("acme"))).toEqual(["c-1.csv", "red.png", "w-1.csv"]);
    expect(await namesOf("?job_id=w-2", keyOf("acme"))).toEqual([]);
    expect(await namesOf("", keyOf("starter"))).toEqual(["w-2.csv"]);
    expect(await namesOf("", keyOf("asked"))).toEqual([]);
    expect((await server.request("/files", { key: null })).status).toBe(401);
  });

  it("are on a page for each reader, with pictures, and links that keep the filters", async () => {
    const page = async (query: string, key = server.key) =>
      (await server.request(`/admin/files${query}`, { key, headers: { accept: "text/html" } })).text();
    const whole = await page("?agent_name=clerk&limit=2");
    expect(whole).toContain("<bdi>c-2.csv</bdi>");
    const next = /rel="next" href="([^"]+)"/.exec(whole)![1]!.replaceAll("&amp;", "&");
    const second = await page(next.slice("/admin/files".length));
    expect(second).toContain("<bdi>Scan of c-1</bdi>");
    expect(second).toMatch(
      /<img src="\/admin\/jobs\/c-1\/files\/[0-9a-f]{64}\?name=red\.png&amp;inline=true"/,
    );
    expect(second).not.toContain("w-1.csv");
    const narrow = await page("", keyOf("starter"));
    expect(narrow).toContain("<bdi>w-2.csv</bdi>");
    expect(narrow).not.toMatch(/c-[12]|w-1/);
    expect(await page("?search=nothing")).toContain("No file matches.");
  });

  it("are not listed while their job is deleted, and again once it is restored", async () => {
    expect((await server.request("/admin/api/jobs/w-1", { method: "DELETE" })).status).toBe(200);
    expect(await namesOf("?limit=1")).toHaveLength(1);
    expect(await namesOf()).toEqual(ALL.filter((name) => name !== "w-1.csv"));
    await server.request("/admin/api/jobs/w-1/restore", { method: "POST" });
    expect(await namesOf()).toEqual(ALL);
  });

  it("lead to the next page where all of one are of deleted jobs", async () => {
    const ids = Array.from({ length: 6 }, (_, n) => `gone-${n}`);
    for (const job_id of ids) await start("clerk", { job_id, workspace_id: "acme" });
    for (const id of ids) await server.request(`/admin/api/jobs/${id}`, { method: "DELETE" });
    const shown = new Set<string>();
    let path = "/admin/files?limit=1";
    for (let pages = 0; path !== "" && pages < 20; pages++) {
      const html = await (await server.request(path, { headers: { accept: "text/html" } })).text();
      for (const [, name] of html.matchAll(/<a class="name"[^>]*title="([^"]+)"/g)) shown.add(name!);
      path = (/rel="next" href="([^"]+)"/.exec(html)?.[1] ?? "").replaceAll("&amp;", "&");
    }
    for (const id of ids) await server.request(`/admin/api/jobs/${id}?permanent=true`, { method: "DELETE" });

    expect(shown.size).toBe(ALL.length);
  });

  it("that an earlier version has stored are shown to who sees everything, and to the others after a sweep", async () => {
    const rows = server.service.get(STORE).table("JobFile");
    for (const id of await rows.ids())
      await rows.change(id, ({ agent_name: _agent, access: _access, ...row }) => row);

    expect(await namesOf()).toEqual(ALL);
    expect(await namesOf("", keyOf("legal"))).toEqual([]);
    expect(await namesOf("", keyOf("starter"))).toEqual([]);

    await server.service.get(FILE_SWEEP).run({ isSearch: true });

    expect(await namesOf("", keyOf("legal"))).toEqual(["c-1.csv", "c-2.csv", "red.png"]);
    expect(await namesOf("", keyOf("starter"))).toEqual(["w-2.csv"]);
  });
});

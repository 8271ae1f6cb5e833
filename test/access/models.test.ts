import { hash } from "node:crypto";
import { defineAgent, prices } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { until } from "../runs/_jobs.ts";

const cost = prices({ small: { input: 1000, output: 5000 } });
const caller = (name: string) =>
  defineAgent({
    name,
    version: "1.0.0",
    methods: {
      job_start: {
        async run({ job }) {
          const item = await job.openCase({ id: `case-${job.id}`, name: "Call" });
          const usage = { prompt_tokens: name.length, completion_tokens: 3 };
          const answer = { model: "small", choices: [{ message: { content: "yes" } }], usage };
          await item.model("ask", { model: "small", messages: [] }, () => answer, { cost });
          await item.close();
        },
      },
    },
  });

const HOLDERS = [
  { name: "whole", role: "viewer" },
  { name: "team", role: "viewer", agents: ["seen"] },
  { name: "two-teams", role: "operator", agents: ["seen", "other"] },
  { name: "customer", role: "admin", workspace: "acme" },
  { name: "program", role: "starter", agents: ["seen"] },
  { name: "person", role: "answerer", agents: ["seen"] },
  { name: "part", role: "viewer", agents: ["seen"], workspace: "acme" },
] as const;
const keyOf = (name: string) => `svck_test_${name}_${"k".repeat(43)}`;

let server: TestServer;
beforeAll(async () => {
  const keys = HOLDERS.map((one) => ({ ...one, sha256: hash("sha256", keyOf(one.name), "hex") }));
  server = await testServer({
    agents: [caller("Seen"), caller("Other"), caller("Foreign")],
    access: { keys },
  });
  for (const slug of ["seen", "other", "foreign"])
    for (const workspace_id of ["acme", "globex"]) {
      const job_id = `${slug}-${workspace_id}`;
      await server.request(`/agents/${slug}/jobs`, { json: { job_context: { job_id, workspace_id } } });
      await until(server.service, job_id, ["completed"]);
    }
});
afterAll(() => server[Symbol.asyncDispose]());

const ask = (name: string, path: string) =>
  server.request(path, { key: keyOf(name), headers: { accept: "application/json" } });
type Use = { readonly agent: string; readonly calls: number; readonly cost: number };
const usesOf = async (name: string) =>
  ((await (await ask(name, "/admin/api/models")).json()) as { items: Use[] }).items;
const PATHS = ["/admin/models", "/admin/api/models", "/admin/api/models/export?format=json"];

describe("tokens and cost of models", () => {
  it.each([
    ["team", ["seen"]],
    ["two-teams", ["other", "seen"]],
  ] as const)(
    "are those of its agents for %s, to the last one, and the same in the export",
    async (name, agents) => {
      const whole = await usesOf("whole");
      const own = await usesOf(name);
      const exported = (await (await ask(name, PATHS[2]!)).json()) as Use[];
      const page = await (await server.request(PATHS[0]!, { key: keyOf(name) })).text();

      expect(whole.map(({ calls }) => calls)).toEqual([2, 2, 2]);
      expect(own).toEqual(whole.filter(({ agent }) => (agents as readonly string[]).includes(agent)));
      expect(own.map(({ agent }) => agent).sort()).toEqual(agents);
      expect(exported).toEqual(own.map((use) => expect.objectContaining(use)));
      expect(page).not.toContain("foreign");
    },
  );

  it.each(["customer", "program", "person", "part"])(
    "are refused to %s, who does not see all jobs of an agent",
    async (name) => {
      const statuses = await Promise.all(PATHS.map(async (path) => (await ask(name, path)).status));
      const home = await (await server.request("/admin/", { key: keyOf(name) })).text();

      expect(statuses).toEqual([403, 403, 403]);
      expect(home).not.toContain('href="/admin/models"');
    },
  );
});

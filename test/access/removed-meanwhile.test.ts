import { defineAgent } from "agent-control-service";
import { JOBS, RUNNER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { ACCESS, HOOKS } from "../../src/core/service/tokens.ts";
import { mcp } from "../../src/mcp.ts";
import { gate } from "../runs/_agent.ts";
import { until } from "../runs/_jobs.ts";

const JOB_COUNT = 100;
const idle = defineAgent({ name: "Idle", version: "1.0.0", methods: { job_start: { run: () => null } } });

interface Bulk {
  readonly id: string;
  readonly hash: string;
  readonly state: string;
  readonly done: number;
  readonly failures: Readonly<Record<string, string>>;
}

/** Works until it may end; its result is secret. */
function slowAgent() {
  const [started, goOn] = [gate(), gate()];
  const run = async () => {
    started.open();
    await goOn.opened;
    return "a secret";
  };
  const agent = defineAgent({ name: "Slow", version: "1.0.0", methods: { job_start: { run } } });
  return { agent, started, goOn };
}

it("an action on many jobs changes no more of them once the key that has started it is removed", async () => {
  await using server = await testServer({ agents: [idle] });
  const { service } = server;
  await service.ready();
  const [keys, jobs] = [service.get(ACCESS), service.get(JOBS)];
  const { key, access } = await keys.add({ name: "temporary", role: "operator" }, { kind: "key" });
  const ids = await Promise.all(
    Array.from({ length: JOB_COUNT }, async () => (await service.get(RUNNER).start("idle", {})).id),
  );
  for (const id of ids) await service.get(RUNNER).ended(id, 60);
  const ask = async (path: string, json?: object, as = key): Promise<Bulk> => {
    const answer = await server.request(`/admin/api/bulk${path}`, {
      ...(json && { method: "POST", json }),
      headers: { "x-api-key": as },
    });
    expect(answer.status).toBeLessThan(300);
    return (await answer.json()) as Bulk;
  };
  const { id, hash } = await ask("", { kind: "jobs", action: "delete", ids });
  let removal: Promise<unknown> | undefined;
  service.get(HOOKS).on("job:deleted", () => {
    removal ??= keys.remove(access.id, { kind: "key" });
  });

  await ask(`/${id}/run`, { hash });

  const now = () => ask(`/${id}`, undefined, server.key);
  await expect.poll(async () => (await now()).state).toBe("done");
  await removal;
  const { failures } = await now();
  const left = (await jobs.list({ limit: 0 })).total;
  expect(left).toBeGreaterThan(0);
  expect(Object.keys(failures)).toHaveLength(left);
  expect(new Set(Object.values(failures))).toEqual(new Set(["key temporary is no longer valid"]));
});

it("a request that waits for the job that it has started gets nothing of it once its key is removed", async () => {
  const { agent, started, goOn } = slowAgent();
  await using server = await testServer({ agents: [agent] });
  const { service } = server;
  await service.ready();
  const keys = service.get(ACCESS);
  const { key, access } = await keys.add({ name: "temporary", role: "operator" }, { kind: "key" });

  const headers = { "x-api-key": key, prefer: "wait=60" };
  const asked = server.request("/agents/slow/jobs", { headers, json: { job_context: { job_id: "a" } } });
  await started.opened;
  await keys.remove(access.id, { kind: "key" });
  goOn.open();
  const answer = await asked;

  const text = await answer.text();
  expect([answer.status, text]).toEqual([401, expect.not.stringContaining("secret")]);
  const { items } = await service.get(JOBS).list();
  expect(await until(service, items[0]!.id)).toMatchObject({ status: "completed", result: "a secret" });
});

it("a call of MCP that streams gets nothing more once its key is removed, and its job continues", async () => {
  const { agent, started, goOn } = slowAgent();
  await using server = await testServer({ agents: [agent], plugins: [mcp({ wait: "60s" })] });
  const { service } = server;
  await service.ready();
  const keys = service.get(ACCESS);
  const { key, access } = await keys.add({ name: "temporary", role: "operator" }, { kind: "key" });
  const headers = { "x-api-key": key, "mcp-protocol-version": "2025-06-18", "mcp-session-id": "s" };
  const params = { name: "slow", arguments: {}, _meta: { progressToken: "p" } };
  const json = { jsonrpc: "2.0", id: 1, method: "tools/call", params };
  const answer = await server.request("/mcp", { headers, json });
  expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "text/event-stream"]);
  await started.opened;
  await keys.remove(access.id, { kind: "key" });
  goOn.open();

  expect(await answer.text()).not.toContain("secret");
  const { items } = await service.get(JOBS).list();
  expect(await until(service, items[0]!.id)).toMatchObject({ status: "completed", result: "a secret" });
});

it("a download breaks off once its key is removed", async () => {
  const bytes = new Uint8Array(32 * 1024 * 1024);
  const maker = defineAgent({
    name: "Maker",
    version: "1.0.0",
    methods: { job_start: { run: ({ job }) => job.file("large.bin", bytes) } },
  });
  await using server = await testServer({ agents: [maker] });
  const { service } = server;
  await service.ready();
  const keys = service.get(ACCESS);
  const { key, access } = await keys.add({ name: "temporary", role: "operator" }, { kind: "key" });
  const { id } = await service.get(RUNNER).start("maker", {});
  const { result } = await until(service, id);
  const { sha256 } = result as { sha256: string };
  const answer = await server.request(`/jobs/${id}/files/${sha256}`, { headers: { "x-api-key": key } });
  expect(answer.status).toBe(200);
  const reader = answer.body!.getReader();
  await reader.read();
  await keys.remove(access.id, { kind: "key" });
  const rest = async () => {
    while (!(await reader.read()).done);
  };
  await expect(rest()).rejects.toThrow();
});

import { defineAgent } from "agent-control-service";
import { JOBS, RUNNER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { ACCESS, HOOKS } from "../../src/core/service/tokens.ts";
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
  const [started, goOn] = [gate(), gate()];
  const run = async () => {
    started.open();
    await goOn.opened;
    return "a secret";
  };
  const slow = defineAgent({ name: "Slow", version: "1.0.0", methods: { job_start: { run } } });
  await using server = await testServer({ agents: [slow] });
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

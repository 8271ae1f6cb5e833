import { CASES, JOBS, RETENTION, RUNNER, STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { agentOf } from "./_agent.ts";
import { jobContext, startJob, until } from "./_jobs.ts";

const HOUR = 3_600_000;

/** Works a case; waits for an answer where it is asked to. */
const worker = agentOf(async ({ job, fields }) => {
  const item = await job.openCase({ id: "order-7", name: "Order" });
  const paid = await item.step("pay", () => 1);
  if (Number(fields.n) === 2) await item.ask({ question: "Continue?", fields: [{ name: "yes" }] });
  await item.close({ paid });
  return "done";
});

let ahead = 0;
const serve = (options: object = {}) => {
  ahead = 0;
  return testServer({ agents: [worker], clock: () => new Date(Date.now() + ahead), ...options });
};
const remove = async (server: TestServer, id: string, query = "") => {
  const response = await server.request(`/admin/api/jobs/${id}${query}`, { method: "DELETE" });
  return (await response.json()) as Record<string, unknown>;
};
const restore = (server: TestServer, id: string) =>
  server.request(`/admin/api/jobs/${id}/restore`, { method: "POST" });
const start = (server: TestServer, id: string | undefined, key: string, n = 1) =>
  server.request("/agents/worker/jobs", {
    headers: { "idempotency-key": key },
    json: { job_context: jobContext(id ?? crypto.randomUUID()), job_fields: { n } },
  });
/** What is left of jobs and cases anywhere in the store. */
async function left({ service }: TestServer) {
  const store = service.get(STORE);
  const tables = ["Job", "Case", "DeletedJob", "DeletedCase", "IdempotencyKey"] as const;
  const rows = await Promise.all(tables.map(async (name) => [name, (await store.table(name).ids()).length]));
  return Object.fromEntries(rows.filter(([, count]) => count !== 0)) as Record<string, number>;
}

it("a deleted job is in no list, search, count or export, and returns whole when it is restored", async () => {
  await using server = await serve();
  await start(server, "a", "key-a");
  const before = await until(server.service, "a");
  const [item] = (await server.service.get(CASES).list()).items;
  const history = await server.service.get(CASES).updates(item!.id);
  const log = await server.service.get(JOBS).log("a");

  const answer = await remove(server, "a");
  const statuses = await Promise.all(
    ["/jobs/a", "/agents/worker/jobs/a", "/admin/api/jobs/a", "/jobs/a/cases", `/admin/api/cases/${item!.id}`]
      .concat("/jobs/a/stream", "/jobs/a/result")
      .map(async (path) => (await server.request(path)).status),
  );
  const lists = await Promise.all(
    ["/jobs", "/admin/api/jobs?search=a", "/admin/api/cases", "/admin/api/jobs/export?format=json"].map(
      async (path) => (await server.request(path)).text(),
    ),
  );
  const stats = (await (await server.request("/admin/api/stats")).json()) as { jobs: { total: number } };
  const listed = (await (await server.request("/admin/api/deleted")).json()) as {
    items: { id: string; restorable_until: string; deleted_by: string }[];
  };

  expect(answer).toMatchObject({ id: "a", deleted_cases: 1 });
  expect(statuses).toEqual([404, 404, 404, 404, 404, 404, 404]);
  expect(lists.filter((text) => text.includes("order-7") || text.includes('"a"'))).toEqual([]);
  expect(stats.jobs.total).toBe(0);
  expect(listed.items).toMatchObject([{ id: "a", restorable_until: answer.restorable_until }]);

  expect((await restore(server, "a")).status).toBe(200);
  const after = await server.service.get(JOBS).get("a");
  expect({ ...after, updated_at: "" }).toEqual({ ...before, updated_at: "" });
  expect(after.updated_at >= before.updated_at).toBe(true);
  expect(await server.service.get(CASES).updates(item!.id)).toEqual(history);
  const marks = ["deleted", "restored"].map((message) => ({
    entry: { type: "mark", mark: "note", message },
  }));
  expect(await server.service.get(JOBS).log("a")).toMatchObject([...log, ...marks]);
  expect(await left(server)).toEqual({ Job: 1, Case: 1, IdempotencyKey: 1 });
  expect((await restore(server, "a")).status).toBe(409);
  expect((await restore(server, "none")).status).toBe(404);
});

it("a job that is deleted while it waits is cancelled: it is restored as that, and a retry continues it", async () => {
  await using server = await serve();
  await startJob(server.service, { id: "a", fields: { n: 2 } });
  await until(server.service, "a", ["awaiting"]);

  await remove(server, "a");
  await restore(server, "a");
  const restored = await server.service.get(JOBS).get("a");
  await server.service.get(RUNNER).retry("a", "last_step", "somebody");
  await until(server.service, "a", ["awaiting"]);
  const pays = (await server.service.get(JOBS).log("a")).filter(
    ({ entry }) => entry.type === "call" && entry.name === "pay",
  );

  expect(restored).toMatchObject({ status: "cancelled", open_questions: 0, stop_reason: "stopped" });
  expect(pays.length).toBe(1);
});

it("a repeated request neither starts a deleted job a second time nor fails without a reason", async () => {
  await using server = await serve();
  await start(server, "a", "key-a");
  await until(server.service, "a");
  await remove(server, "a");

  const sameId = await start(server, "a", "another-key");
  const sameKey = await start(server, undefined, "key-a");
  const error = (await sameKey.json()) as { error: string; detail: string };

  expect([sameId.status, sameKey.status]).toEqual([409, 409]);
  expect(JSON.stringify(error)).toMatch(/Job \\"a\\" was deleted on .*Restore it, or delete it permanently/);
  expect(await left(server)).toEqual({ DeletedJob: 1, DeletedCase: 1, IdempotencyKey: 1 });

  await remove(server, "a", "?permanent=true");
  expect(await left(server)).toEqual({});
  expect((await start(server, "a", "key-a")).status).toBe(202);
  expect((await until(server.service, "a")).status).toBe("completed");
});

it("a later job whose case would have the id of a deleted one gets another id, and both can be there", async () => {
  await using server = await serve();
  await startJob(server.service, { id: "a" });
  await until(server.service, "a");
  await remove(server, "a");
  await startJob(server.service, { id: "b" });
  await until(server.service, "b");

  const restored = await restore(server, "a");
  const { items } = await server.service.get(CASES).list({ sort: "id" });

  expect(restored.status).toBe(200);
  expect(items.map(({ id, job_id }) => [id, job_id])).toEqual([
    ["b-order-7", "b"],
    ["order-7", "a"],
  ]);
});

it("retention removes deleted jobs after their time, and those earlier that would have expired", async () => {
  await using server = await serve({ deletedRetention: "10h", retention: { completed: "15h" } });
  const sweep = async () => {
    await server.service.get(RETENTION).run();
    return [...(await server.service.get(STORE).table("DeletedJob").ids())].sort();
  };
  for (const id of ["early", "late"]) {
    await startJob(server.service, { id });
    await until(server.service, id);
  }
  await remove(server, "early");
  ahead = 9 * HOUR;
  await remove(server, "late");

  expect(await sweep()).toEqual(["early", "late"]);
  ahead = 11 * HOUR;
  expect(await sweep()).toEqual(["late"]);
  ahead = 16 * HOUR;
  expect(await sweep()).toEqual([]);
  expect(await left(server)).toEqual({});
  expect(await server.service.get(STORE).log("Run").last("late")).toBe(0);
});

it("with deletedRetention 0, deleting is final", async () => {
  await using server = await serve({ deletedRetention: 0 });
  await start(server, "a", "key-a");
  await until(server.service, "a");

  expect(await remove(server, "a")).toMatchObject({ deleted_cases: 1, restorable_until: null });
  expect(await left(server)).toEqual({});
  expect(await server.service.get(STORE).log("Run").last("a")).toBe(0);
  expect((await restore(server, "a")).status).toBe(404);
});

it("a deletion, or a restoration, that is refused halfway has changed nothing", async () => {
  let refused = "";
  const plugin = {
    name: "refuses",
    setup: ({ participate }: { participate: (fn: (change: { kind: string }) => void) => void }) =>
      participate(({ kind }) => {
        if (kind === refused) throw new Error("no");
      }),
  };
  await using server = await serve({ plugins: [plugin] });
  await startJob(server.service, { id: "a" });
  await until(server.service, "a");
  const runner = server.service.get(RUNNER);

  const whole = { Job: 1, Case: 1 };
  const aside = { DeletedJob: 1, DeletedCase: 1 };
  for (refused of ["case:deleted", "job:deleted"]) {
    await expect(runner.remove("a", "x")).rejects.toThrow();
    expect(await left(server)).toEqual(whole);
  }
  refused = "";
  await runner.remove("a", "x");
  refused = "job:restored";
  await expect(runner.restore("a", "x")).rejects.toThrow();
  expect(await left(server)).toEqual(aside);
  refused = "job:erased";
  await expect(runner.remove("a", "x", { permanent: true })).rejects.toThrow();
  expect(await left(server)).toEqual(aside);
  expect(await server.service.get(STORE).log("Run").last("a")).toBeGreaterThan(0);
});

it("a deleted job can be restored after a crash", async () => {
  await using server = await serve();
  await startJob(server.service, { id: "a" });
  await until(server.service, "a");
  await remove(server, "a");

  await server.crash();

  expect((await restore(server, "a")).status).toBe(200);
  expect(await left(server)).toEqual({ Job: 1, Case: 1 });
});

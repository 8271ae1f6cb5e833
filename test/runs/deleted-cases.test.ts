import { CASES, JOBS, RETENTION, RUNNER, STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { agentOf } from "./_agent.ts";
import { startJob, until } from "./_jobs.ts";

const HOUR = 3_600_000;

/** Works two cases; waits for an answer in the second one where it is asked to. */
const worker = agentOf(async ({ job, fields }) => {
  const first = await job.openCase({ id: "order-1", name: "First" });
  await first.step("pay", () => 1);
  await first.close({ paid: 1 });
  const second = await job.openCase({ id: "order-2", name: "Second" });
  if (Number(fields.n) !== 2) return void (await second.close({}));
  await second.ask({ question: "Continue?", fields: [{ name: "yes" }] }).catch(() => {});
  await job.step("after", () => 1);
  return "done";
});

let ahead = 0;
const serve = (options: object = {}) => {
  ahead = 0;
  return testServer({ agents: [worker], clock: () => new Date(Date.now() + ahead), ...options });
};
const call = async (server: TestServer, method: string, path: string) => {
  const response = await server.request(`/admin/api/${path}`, { method });
  return {
    code: response.status,
    text: await response.clone().text(),
    ...((await response.json()) as object),
  } as {
    code: number;
    text: string;
    items?: Record<string, unknown>[];
    state?: string;
  };
};
const listed = async (server: TestServer, query = "") =>
  (await call(server, "GET", `deleted-cases${query}`)).items!;
const countOf = async (server: TestServer) => (await server.service.get(JOBS).get("a")).case_count;

it("a deleted case leaves its job and every list, and returns whole when it is restored", async () => {
  await using server = await serve();
  await startJob(server.service, { id: "a" });
  await until(server.service, "a");
  const cases = server.service.get(CASES);
  const before = await cases.get("order-1");

  const answer = await call(server, "DELETE", "cases/order-1");

  expect(answer).toMatchObject({ code: 200, id: "order-1", restorable_until: expect.any(String) });
  expect((await call(server, "GET", "cases/order-1")).code).toBe(404);
  expect((await cases.list()).items.map(({ id }) => id)).toEqual(["order-2"]);
  expect(await countOf(server)).toBe(1);
  const row = {
    id: "order-1",
    job_id: "a",
    status: "completed",
    restorable_until: JSON.parse(answer.text).restorable_until,
  };
  expect(await listed(server)).toMatchObject([row]);
  expect(await listed(server, "?search=first")).toMatchObject([row]);
  expect(await listed(server, "?search=second")).toEqual([]);

  await server.crash();
  expect(await call(server, "POST", "cases/order-1/restore")).toMatchObject({
    code: 200,
    status: "completed",
  });
  const after = await server.service.get(CASES).get("order-1");
  expect({ ...after, updated_at: "" }).toEqual({ ...before, updated_at: "" });
  expect(await countOf(server)).toBe(2);
  expect(await listed(server)).toEqual([]);
  expect((await call(server, "POST", "cases/order-1/restore")).text).toContain("is not deleted");
});

it("a case that is deleted while it asks is cancelled: its job continues, and it is restored as that", async () => {
  await using server = await serve();
  await startJob(server.service, { id: "a", fields: { n: 2 } });
  await until(server.service, "a", ["awaiting"]);

  await server.service.get(RUNNER).removeCase("order-2", "Ada");
  await until(server.service, "a");
  await server.service.get(RUNNER).restoreCase("order-2", "Ada");

  expect(await server.service.get(CASES).get("order-2")).toMatchObject({
    status: "cancelled",
    question: null,
    finished_at: expect.any(String),
  });
  const { open_questions, case_count } = await server.service.get(JOBS).get("a");
  expect({ open_questions, case_count }).toEqual({ open_questions: 0, case_count: 2 });
  const log = JSON.stringify(await server.service.get(JOBS).log("a"));
  expect(log).toContain("case restored");
});

it("a case that was deleted alone stays deleted when its job is deleted and restored, and goes with it permanently", async () => {
  await using server = await serve();
  await startJob(server.service, { id: "a" });
  await until(server.service, "a");
  const runner = server.service.get(RUNNER);
  const store = server.service.get(STORE);
  await runner.removeCase("order-1", "Ada");

  expect(await runner.remove("a", "Ada")).toMatchObject({ cases: 1 });
  expect((await call(server, "POST", "cases/order-1/restore")).text).toContain("job of case");
  expect((await call(server, "POST", "cases/order-2/restore")).text).toContain("deleted with its job");
  expect((await listed(server)).map(({ id }) => id)).toEqual(["order-1"]);
  await runner.restore("a", "Ada");
  expect(await store.table("Case").ids()).toEqual(["order-2"]);
  expect(await countOf(server)).toBe(1);
  await runner.remove("a", "Ada", { permanent: true });

  expect(await store.table("DeletedCase").ids()).toEqual([]);
  expect(await store.log("CaseUpdate").last("order-1")).toBe(0);
});

it("a later case never gets the id of a deleted one", async () => {
  await using server = await serve();
  await startJob(server.service, { id: "a" });
  await until(server.service, "a");
  await server.service.get(RUNNER).removeCase("order-1", "Ada");
  await startJob(server.service, { id: "b" });
  await until(server.service, "b");

  await server.service.get(RUNNER).restoreCase("order-1", "Ada");

  const ids = (await server.service.get(CASES).list({ sort: "created_at" })).items;
  expect(ids.map(({ id, job_id }) => [id, job_id])).toEqual([
    ["order-1", "a"],
    ["order-2", "a"],
    ["b-order-1", "b"],
    ["b-order-2", "b"],
  ]);
});

it("a deleted case is removed permanently when its time is over, when a person says so, and where nothing is kept", async () => {
  await using server = await serve({ deletedRetention: "10h" });
  await startJob(server.service, { id: "a" });
  await until(server.service, "a");
  const store = server.service.get(STORE);
  await call(server, "DELETE", "cases/order-1");

  ahead = 9 * HOUR;
  await server.service.get(RETENTION).run();
  expect(await store.table("DeletedCase").ids()).toEqual(["order-1"]);
  ahead = 11 * HOUR;
  await server.service.get(RETENTION).run();
  expect(await store.table("DeletedCase").ids()).toEqual([]);
  expect(await store.log("CaseUpdate").last("order-1")).toBe(0);

  await call(server, "DELETE", "cases/order-2");
  expect(await call(server, "DELETE", "cases/order-2?permanent=true")).toMatchObject({
    restorable_until: null,
  });
  expect(await store.table("DeletedCase").ids()).toEqual([]);
  expect(await store.log("CaseUpdate").last("order-2")).toBe(0);

  await using final = await serve({ deletedRetention: 0 });
  await startJob(final.service, { id: "a" });
  await until(final.service, "a");
  expect(await call(final, "DELETE", "cases/order-1")).toMatchObject({ restorable_until: null });
  expect(await final.service.get(STORE).table("DeletedCase").ids()).toEqual([]);
});

it("a deletion of many cases is undone by one request", async () => {
  await using server = await serve();
  await startJob(server.service, { id: "a" });
  await until(server.service, "a");
  const bulk = async (path: string, body: object) =>
    (await (await server.request(`/admin/api/bulk${path}`, { json: body })).json()) as Record<string, string>;
  const ended = async (id: string) => {
    for (let left = 100; left > 0; left--) {
      const { state } = await call(server, "GET", `bulk/${id}`);
      if (state === "done") return;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  const { id, hash } = await bulk("", { kind: "cases", action: "delete", all: true });
  await bulk(`/${id}/run`, { hash });
  await ended(id!);
  expect(await countOf(server)).toBe(0);

  const undo = await bulk(`/${id}/undo`, {});
  await ended(undo.id!);

  expect(await server.service.get(STORE).table("Case").ids()).toHaveLength(2);
  expect(await countOf(server)).toBe(2);
});

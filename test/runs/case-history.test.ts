import type { Service } from "agent-control-service";
import { CASES, JOBS, RUNNER, STORE } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
import { LEDGER } from "../../src/core/service/inner-tokens.ts";
import { agentOf, gate } from "./_agent.ts";
import { NO_LIMITS, startJob, until } from "./_jobs.ts";

const FIELDS = [{ name: "text", required: true }];

/** Runs as many steps as its input says, asks, and continues. */
const worker = agentOf(async ({ job, fields: { n } }) => {
  const item = await job.openCase({ id: "a", name: "a" });
  for (let at = 1; at <= Number(n); at++) await item.step(`step ${at}`, () => ({ text: "x".repeat(300) }));
  await item.update({ name: "noted", payload: { note: true } });
  await item.ask({ question: "Continue?", fields: FIELDS });
  await item.close({ done: true });
});

async function atQuestion(service: Service, n: number): Promise<string> {
  const { id } = await startJob(service, { fields: { n } });
  await until(service, id, ["awaiting"]);
  return id;
}

/** Puts a case into the shape in which version 0.1.0 stored it: its history inside, no log. */
async function makeOld(service: Service, id: string): Promise<void> {
  const { updates } = await service.get(CASES).get(id);
  await service.get(STORE).transaction(async (tx) => {
    await tx.clear("CaseUpdate", id);
    await tx.change(
      "Case",
      id,
      ({ update_count: _count, last_error: _error, ...item }) => ({ ...item, updates }) as never,
    );
  });
}

test("a case without a name is refused with what it lacks", async () => {
  const nameless = agentOf(async ({ job }) => void (await job.openCase({ id: "a" } as never)));
  await using server = await testServer({ agents: [nameless] });
  const { job } = await server.run(nameless);
  expect(job.error).toBe("openCase was called with an invalid case: name is required");
});

test("the size of a case's writes does not grow with its history", async () => {
  await using server = await testServer({ agents: [worker] });
  const { service } = server;
  const sizeAfter = async (n: number) => {
    const id = await atQuestion(service, n);
    const size = JSON.stringify(await service.get(STORE).table("Case").get("a")).length;
    await service.get(RUNNER).remove(id, "test", { permanent: true });
    return size;
  };

  expect(await sizeAfter(200)).toBeLessThan((await sizeAfter(2)) + 100);
});

test("a case is shown with all its updates, numbered from 1, and a list has the newest ones", async () => {
  await using server = await testServer({ agents: [worker] });
  const { service } = server;
  const id = await atQuestion(service, 150);
  const json = async (path: string) => (await server.request(path)).json() as Promise<unknown>;
  type Shown = { updates: { index: number; name: string }[]; update_count: number };

  const one = (await json("/admin/api/cases/a")) as Shown;
  const [listed] = (await json(`/jobs/${id}/cases`)) as [Shown];
  const [few] = (await json(`/jobs/${id}/cases?updates=2`)) as [Shown];
  const { cases } = (await json(`/admin/api/jobs/${id}`)) as { cases: [Shown] };
  const rows = (await json("/admin/api/cases")) as { items: unknown[] };

  expect(one.updates.map(({ index }) => index)).toEqual(Array.from({ length: 152 }, (_, at) => at + 1));
  expect(one.updates.slice(-2).map(({ name }) => name)).toEqual(["noted", "Continue?"]);
  expect([one.update_count, listed.update_count, few.update_count]).toEqual([152, 152, 152]);
  expect(listed.updates).toEqual(one.updates.slice(-100));
  expect(few.updates).toEqual(one.updates.slice(-2));
  expect(cases[0].updates).toEqual(one.updates.slice(-100));
  expect(rows.items).toMatchObject([{ id: "a", update_count: 152 }]);
  expect((await server.request(`/jobs/${id}/cases?updates=1001`)).status).toBe(422);
});

test("a case that version 0.1.0 stored, with its history inside, is shown completely and keeps counting", async () => {
  const options = { agents: [worker], store: undefined, shutdownGrace: 0 };
  await using first = await testServer(options);
  const id = await atQuestion(first.service, 3);
  const before = (await first.service.get(CASES).get("a")).updates;
  await makeOld(first.service, "a");
  await first.service.close();

  await using second = await testServer({ ...options, dataDir: first.dataDir });
  const { service } = second;
  const cases = service.get(CASES);
  const asFound = await cases.get("a");
  const listed = (await cases.listWithUpdates({}, 2)).items[0]!;
  await service.get(RUNNER).answer(id, "a", { answer: { text: "yes" }, message: null });
  await until(service, id, ["completed"]);
  const { updates, ...after } = await cases.get("a");

  expect(asFound).toMatchObject({ updates: before, update_count: 5 });
  expect(listed).toMatchObject({ updates: before.slice(-2), update_count: 5 });
  expect(updates.slice(0, 5)).toEqual(before);
  expect(updates.map(({ index, name }) => [index, name]).slice(5)).toEqual([
    [6, "answer"],
    [7, "close"],
  ]);
  expect(after).toMatchObject({ status: "completed", update_count: 7 });
  expect(await service.get(STORE).table("Case").get("a")).not.toHaveProperty("updates");
});

test.each(["case", "job", "retry"] as const)("the history goes with the %s", async (what) => {
  const first = gate();
  const agent = agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    await item.update({ name: "noted" });
    first.open();
    await new Promise(() => {});
  });
  await using server = await testServer({ agents: [agent], stopGrace: 0 });
  const { service } = server;
  const { id } = await startJob(service);
  await first.opened;
  const stored = () => service.get(STORE).log("CaseUpdate").last("a");
  expect(await stored()).toBe(1);

  const runner = service.get(RUNNER);
  if (what === "case") await runner.removeCase("a", "test", { permanent: true });
  if (what === "job") await runner.remove(id, "test", { permanent: true });
  if (what === "retry") {
    await runner.stop(id);
    await until(service, id, ["cancelled"]);
    expect(await stored()).toBe(2);
    await runner.retry(id, "start");
    await expect
      .poll(async () => (await service.get(CASES).find("a"))?.updates.map(({ index }) => index))
      .toEqual([1]);
    return;
  }

  expect(await stored()).toBe(0);
});

test("an update and its record are stored together or not at all", async () => {
  const agent = agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    await item.step("kept", () => 1);
    await item.step("refused", () => 2);
  });
  await using server = await testServer({ agents: [agent] });
  const { service } = server;
  service.get(LEDGER).join((change) => {
    if (change.kind === "case:changed" && change.update?.name === "refused") throw new Error("no room");
  });

  const { id } = await startJob(service, { context: { job_instructions: NO_LIMITS } });
  await until(service, id);

  const log = await service.get(JOBS).log(id);
  const calls = log.flatMap(({ entry }) => (entry.type === "call" ? [`${entry.call} ${entry.name}`] : []));
  expect(calls.filter((call) => call.startsWith("step"))).toEqual(["step kept"]);
  expect((await service.get(CASES).get("a")).updates.map(({ name }) => name)).not.toContain("refused");
});

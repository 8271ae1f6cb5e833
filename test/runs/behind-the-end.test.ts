import type { Service } from "agent-control-service";
import { CASES, JOBS, RUNNER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
import { LEDGER } from "../../src/core/service/inner-tokens.ts";
import { agentOf, gate } from "./_agent.ts";
import { startJob, until } from "./_jobs.ts";

/** Lets nothing be stored until the result is called. */
async function holdStore(service: Service): Promise<() => void> {
  const [held, release] = [gate(), gate()];
  void service.get(LEDGER).write(async () => {
    held.open();
    await release.opened;
  });
  await held.opened;
  return release.open;
}

const soon = () => new Promise((resolve) => setTimeout(resolve, 20));

test("a step whose result comes after its job's end is recorded once, with its cost", async () => {
  const [begun, goOn, give] = [gate(), gate(), gate()];
  const agent = agentOf(async ({ job }) => {
    void job.step("late", () => give.opened, { cost: 2 });
    begun.open();
    await goOn.opened;
  });
  await using server = await testServer({ agents: [agent] });
  const { service } = server;
  const { id } = await startJob(service);
  await begun.opened;

  const release = await holdStore(service);
  goOn.open();
  await soon();
  give.open();
  await soon();
  release();
  const job = await until(service, id);
  await soon();
  const entries = (await service.get(JOBS).log(id)).map(({ entry }) => entry);

  const late = entries.filter((entry) => "name" in entry && entry.name === "late");
  expect(late.map(({ type }) => type)).toEqual(["attempt"]);
  expect(job.total_cost).toBe(2);
});

test("nothing is stored after a job's end: no updates, cases or their ends", async () => {
  const [goOn, more] = [gate(), gate()];
  const agent = agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    void more.opened.then(() => {
      void item.update({ name: "late", cost: 1 });
      void item.close({ late: true });
      void job.openCase({ id: "b", name: "b" });
    });
    await goOn.opened;
  });
  await using server = await testServer({ agents: [agent] });
  const { service } = server;
  const { id } = await startJob(service);
  await expect.poll(() => service.get(CASES).find("a")).toBeDefined();

  const release = await holdStore(service);
  goOn.open();
  await soon();
  more.open();
  await soon();
  release();
  const job = await until(service, id);
  await soon();

  expect(job).toMatchObject({ status: "completed", total_cost: 0, case_count: 1 });
  expect(await service.get(CASES).find("b")).toBeUndefined();
  const item = await service.get(CASES).get("a");
  expect(item.updates.map(({ name }) => name)).not.toContain("late");
  expect((await service.get(JOBS).log(id)).at(-1)?.entry).toMatchObject({ type: "status", to: "completed" });
  expect(service.get(RUNNER).load()).toEqual({ running: 0, queued: 0 });
});

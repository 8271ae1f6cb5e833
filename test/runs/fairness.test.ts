import { JOBS } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
import { agentOf } from "./_agent.ts";
import { startJob, until } from "./_jobs.ts";

const STEPS = 20_000;

test("a request is answered while a job makes thousands of steps that take no time, and while they are replayed", async () => {
  let made = 0;
  const agent = agentOf(async ({ job }) => {
    for (made = 0; made < STEPS; made++) await job.step("step", () => 1);
    await job.sleep("1d");
  });
  await using server = await testServer({ agents: [agent], suspendAfter: false });
  const answered: [boolean, number][] = [];
  const ask = async () => {
    while (made === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    const { ok } = await server.request("/jobs?limit=1");
    answered.push([ok, made]);
  };

  const { id } = await startJob(server.service);
  await ask();
  await until(server.service, id, ["awaiting", "in_progress"]);
  while (made < STEPS) await new Promise((resolve) => setTimeout(resolve, 1));
  made = 0;
  await server.crash();
  await ask();
  while (made < STEPS) await new Promise((resolve) => setTimeout(resolve, 1));

  for (const [ok, before] of answered) {
    expect(ok).toBe(true);
    expect(before).toBeLessThan(STEPS);
  }
  expect(answered).toHaveLength(2);
  const log = await server.service.get(JOBS).log(id);
  expect(log.filter(({ entry }) => entry.type === "call")).toHaveLength(STEPS);
});

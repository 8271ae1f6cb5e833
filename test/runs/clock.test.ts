import type { Service } from "agent-control-service";
import { CASES } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
import { agentOf } from "./_agent.ts";
import { NO_LIMITS, startJob, until } from "./_jobs.ts";

const HOUR = 3_600_000;

/** A clock of the day that can be set. */
function settableClock() {
  let offset = 0;
  return {
    clock: () => new Date(Date.now() + offset),
    setBack: () => {
      offset -= HOUR;
    },
  };
}

const FIELDS = [{ name: "text", required: true }];

/** Sleeps, asks, or works until it is asked to end. */
const waiter = agentOf(async ({ job, fields: { n }, signal }) => {
  if (n === 1) return job.sleep("400ms");
  const item = await job.openCase({ id: `case-${n}`, name: "a" });
  if (n === 2) return item.ask({ question: "What?", fields: FIELDS, deadline: "400ms" });
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
});

async function startAll(service: Service): Promise<void> {
  await startJob(service, { id: "sleeps" });
  await startJob(service, { id: "asks", fields: { n: 2 } });
  const job_instructions = { ...NO_LIMITS, max_duration: 0.6 };
  await startJob(service, { id: "works", fields: { n: 3 }, context: { job_instructions } });
  await until(service, "asks", ["awaiting"]);
}

/** How each of them ended. */
async function ends(service: Service): Promise<unknown[]> {
  const jobs = await Promise.all(["sleeps", "asks", "works"].map((id) => until(service, id)));
  for (const { created_at, updated_at, finished_at } of jobs) {
    expect([created_at, finished_at, updated_at]).toEqual([created_at, finished_at, updated_at].toSorted());
  }
  return jobs.map(({ status, stop_reason }) => [status, stop_reason]);
}

const RIGHT = [
  ["completed", null],
  ["failed", "question_expired"],
  ["failed", "max_duration"],
];

test("waits and time limits end at the same time when the clock is set back in the meantime", async () => {
  const { clock, setBack } = settableClock();
  await using server = await testServer({ agents: [waiter], clock });
  const { service } = server;
  await startAll(service);

  setBack();

  expect(await ends(service)).toEqual(RIGHT);
  const { updates, created_at, finished_at } = await service.get(CASES).get("case-2");
  const times = [created_at, ...updates.map((update) => update.created_at), finished_at];
  expect(times).toEqual(times.toSorted());
});

test("waits and time limits are not longer when the clock is set back before the next start", async () => {
  const { clock, setBack } = settableClock();
  const options = { agents: [waiter], clock, store: undefined, shutdownGrace: 0 };
  await using first = await testServer(options);
  await startAll(first.service);
  await first.service.close();

  setBack();
  await using second = await testServer({ ...options, dataDir: first.dataDir });

  expect(await ends(second.service)).toEqual(RIGHT);
});

test("a question with a time as its deadline is open until then, even when the clock is set back", async () => {
  const { clock, setBack } = settableClock();
  const agent = agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    const deadline = new Date(clock().getTime() + 2000);
    return item.ask({ question: "What?", fields: FIELDS, deadline });
  });
  await using server = await testServer({ agents: [agent], clock });
  const { id } = await startJob(server.service);
  await until(server.service, id, ["awaiting"]);

  setBack();
  await new Promise((resolve) => setTimeout(resolve, 2500));
  const response = await server.request(`/jobs/${id}/cases/a/update`, { json: { answer: { text: "yes" } } });

  expect(response.status).toBe(200);
  expect(await until(server.service, id)).toMatchObject({ status: "completed", result: { text: "yes" } });
});

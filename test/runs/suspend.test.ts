import { JOBS, RUNNER } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
import type { StoredJob } from "../../src/core/models/job.ts";
import { agentOf } from "./_agent.ts";
import { startJob, until } from "./_jobs.ts";
import { emptyStore, Life } from "./_lives.ts";

const ID = "job-1";
const FIELDS = [{ name: "text", required: true }];

const jobOf = ({ service }: TestServer): Promise<StoredJob> => service.get(JOBS).get(ID);
const entriesOf = async ({ service }: TestServer) =>
  (await service.get(JOBS).log(ID)).map(({ entry }) => entry);
const marksOf = async (server: TestServer) =>
  (await entriesOf(server)).flatMap((entry) => (entry.type === "mark" ? [entry.mark] : []));

/** An agent that tells how often its handler was called, and what it did. */
function sleeper(duration: string) {
  const did: string[] = [];
  const agent = agentOf(async ({ job }) => {
    did.push("called");
    await job.step("a", () => did.push("a"));
    await job.sleep(duration as "1h");
    await job.step("b", () => did.push("b"));
    return "slept";
  });
  return { agent, did };
}

test("a job that only sleeps leaves memory, and resumes when its sleep ends", async () => {
  const { agent, did } = sleeper("1h");
  await using server = await testServer({ agents: [agent] });
  await startJob(server.service, { id: ID });
  await server.advance("5s");
  expect((await jobOf(server)).suspended).toBeNull();

  await server.advance("6s");

  const { suspended, status } = await jobOf(server);
  expect(status).toBe("in_progress");
  expect(Date.parse(suspended!.wake_at!) - Date.parse(suspended!.at)).toBeGreaterThan(3_500_000);
  const shown = await server.service.get(JOBS).show(await jobOf(server));
  expect(shown.suspended).toEqual(suspended);
  expect(await (await server.request(`/jobs/${ID}`)).json()).toMatchObject({ suspended });
  expect(await (await server.request("/jobs")).json()).toMatchObject([{ job_id: ID, suspended }]);
  await server.advance("59m");
  expect(did).toEqual(["called", "a"]);
  await server.advance("1m");
  expect(await until(server.service, ID)).toMatchObject({
    status: "completed",
    result: "slept",
    suspended: null,
  });
  expect(await (await server.request(`/jobs/${ID}`)).json()).not.toHaveProperty("suspended");
  expect(did).toEqual(["called", "a", "called", "b"]);
  expect(await marksOf(server)).toEqual(["resumed"]);
});

test("a job that becomes due while the service looks which ones are due is resumed", async () => {
  const { agent } = sleeper("200ms");
  const resumed = Array.from({ length: 12 }, async (_, n) => {
    // Each reading of this clock takes a millisecond.
    let time = Date.now() + n;
    const life = new Life(await emptyStore(), agent, { clock: () => new Date(time++), suspendAfter: 0 });
    await life.start();
    return (await life.ended(10_000))?.status;
  });
  expect(await Promise.all(resumed)).toEqual(resumed.map(() => "completed"));
});

test("a suspended job is not touched by a start, and wakes in the process after", async () => {
  const { agent, did } = sleeper("1h");
  await using server = await testServer({ agents: [agent] });
  await startJob(server.service, { id: ID });
  await server.advance("20s");
  const [before, lines] = [await jobOf(server), await entriesOf(server)];

  await server.crash();
  await server.advance("20s");
  await server.crash();

  expect(await jobOf(server)).toEqual(before);
  expect(await entriesOf(server)).toEqual(lines);
  await server.advance("1h");
  expect(await until(server.service, ID)).toMatchObject({ status: "completed", run_count: 2 });
  expect(did).toEqual(["called", "a", "called", "b"]);
});

test("a job that became due while the service was down resumes at its start", async () => {
  const { agent } = sleeper("1h");
  let ahead = 0;
  const clock = () => new Date(Date.now() + ahead);
  await using server = await testServer({ agents: [agent], clock, suspendAfter: 0, startTimer: undefined });
  await startJob(server.service, { id: ID });
  await expect.poll(async () => (await jobOf(server)).suspended).toBeTruthy();

  ahead = 2 * 3_600_000;
  await server.crash();

  expect(await until(server.service, ID)).toMatchObject({ status: "completed", run_count: 2 });
});

test("an answer resumes a suspended job", async () => {
  const agent = agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "one", name: "One" });
    return (await item.ask("what", { question: "What?", fields: FIELDS })).text;
  });
  await using server = await testServer({ agents: [agent], suspendAfter: 0 });
  await startJob(server.service, { id: ID });
  await expect.poll(async () => (await jobOf(server)).suspended).toMatchObject({ wake_at: null });

  await server.service.get(RUNNER).answer(ID, "one", { answer: { text: "this" }, message: null });

  expect(await until(server.service, ID)).toMatchObject({ status: "completed", result: "this" });
});

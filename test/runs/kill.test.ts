// @alone
// @long
// @losses
import { expect, test } from "vitest";
import { ServiceProcess } from "./_process.ts";

const marksOf = (log: { event: string; data: Record<string, unknown> }[]) =>
  log.filter(({ event }) => event === "mark").map(({ data }) => data.mark);

test("an answer given after a kill completes the job, with the answer in its result", async () => {
  const service = await ServiceProcess.start();
  await service.startJob("asker", "job-1", { count: 3 });
  await service.until("job-1", ["awaiting"]);
  await expect.poll(async () => (await service.did()).length).toBe(3);
  const answer = (n: number, text: string) =>
    service.send(`/jobs/job-1/cases/q${n}/update`, { answer: { text } });
  expect((await answer(0, "zero")).status).toBe(200);

  await service.kill();
  await service.start();
  const statuses = [await answer(1, "one"), await answer(2, "two"), await answer(1, "other")].map(
    ({ status }) => status,
  );
  const job = await service.until("job-1", ["completed", "failed"]);

  expect(statuses).toEqual([200, 200, 409]);
  expect(job).toMatchObject({ status: "completed", payload: { answers: ["zero", "one", "two"] } });
  const did = await service.did();
  expect(did.filter((one) => one.startsWith("prepare"))).toHaveLength(3);
  expect(new Set(did.filter((one) => one.startsWith("notified")))).toEqual(
    new Set(["notified zero", "notified one", "notified two"]),
  );
});

test("a run of 1,000 steps killed at step 700 runs at most one step again, within 2 s of work", async () => {
  const service = await ServiceProcess.start();
  await service.startJob("counter", "job-1", { count: 1000, pause: 700 });
  await expect.poll(async () => (await service.did()).length).toBe(700);

  await service.kill();
  await service.start();
  await expect.poll(async () => (await service.did()).length, { interval: 20 }).toBe(701);
  const work = await service.workSeconds();
  const did = await service.did();

  expect(did.slice(-2)).toEqual(["step 700 attempt 1", "step 700 attempt 2"]);
  expect(new Set(did.map((one) => one.split(" ")[1])).size).toBe(700);
  expect(work).toBeLessThan(2);
});

test("each agent's policy decides what happens to a job that the end of the process interrupted", async () => {
  const service = await ServiceProcess.start();
  const agents = ["resumer", "restarter", "failer"];
  for (const agent of agents) await service.startJob(agent, agent);
  await expect
    .poll(async () => (await service.did()).filter((one) => one.startsWith("second")).length)
    .toBe(3);

  await service.kill();
  await service.start();
  const ended = await Promise.all(agents.map((agent) => service.until(agent, ["completed", "failed"])));
  const logs = await Promise.all(agents.map((agent) => service.log(agent)));

  expect(ended.map(({ status }) => status)).toEqual(["completed", "completed", "failed"]);
  expect(logs.map(marksOf)).toEqual([
    ["interrupted", "resumed"],
    ["interrupted", "restarted"],
    ["interrupted"],
  ]);
  const did = await service.did();
  expect(did.filter((one) => one === "first")).toHaveLength(4);
  expect(did.filter((one) => one === "second 2")).toHaveLength(1);
  expect(did.filter((one) => one === "second 1")).toHaveLength(4);
});

test("a job whose agent is missing waits, visibly, and continues once the agent is back", async () => {
  const service = await ServiceProcess.start();
  await service.startJob("resumer", "job-1");
  await expect.poll(() => service.did()).toContain("second 1");

  await service.kill();
  await service.start({ WITHOUT: "Resumer" });
  const waiting = await service.show("job-1");
  const marks = marksOf(await service.log("job-1"));
  await service.kill();
  await service.start();

  expect(waiting.status).toBe("in_progress");
  expect(marks).toEqual(["waiting_for_agent"]);
  expect((await service.until("job-1", ["completed", "failed"])).status).toBe("completed");
});

test("a sleep continues across a kill, and does not start over", async () => {
  const service = await ServiceProcess.start();
  const begun = Date.now();
  await service.startJob("sleeper", "job-1");
  await new Promise((resolve) => setTimeout(resolve, 200));

  await service.kill();
  await service.start();
  await service.until("job-1", ["completed"]);
  const sleeps = (await service.log("job-1")).filter(({ data }) => data.call === "sleep");

  expect(sleeps.map(({ event }) => event)).toEqual(["begun", "call"]);
  expect(Date.now() - begun).toBeGreaterThanOrEqual(2000);
});

test("SIGTERM refuses new work, lets the running step end, exits 0, and the next start resumes", async () => {
  const service = await ServiceProcess.start();
  await service.startJob("resumer", "job-1");
  await expect.poll(() => service.did()).toContain("second 1");

  const asked = Date.now();
  const ending = service.end();
  await new Promise((resolve) => setTimeout(resolve, 300));
  const answer = await service.startJob("resumer", "late").then(
    () => "taken",
    () => "refused",
  );
  const code = await ending;
  const took = Date.now() - asked;
  await service.start();
  const job = await service.until("job-1", ["completed", "failed"]);

  expect(answer).toBe("refused");
  expect((await service.send("/jobs/late")).status).toBe(404);
  expect(code).toBe(0);
  expect(took).toBeLessThan(10_000);
  expect(job.status).toBe("completed");
  expect((await service.did()).filter((one) => one.startsWith("second"))).toEqual(["second 1"]);
});

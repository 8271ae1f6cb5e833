import { AGENTS, JOBS, RUNNER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
import { agentOf, gate } from "./_agent.ts";
import { jobContext, startJob, until } from "./_jobs.ts";

test("200 jobs started together never run more than 8 at a time, and all finish", async () => {
  let running = 0;
  let most = 0;
  const agent = agentOf(
    ({ job }) =>
      job.step("work", async () => {
        most = Math.max(most, ++running);
        await new Promise((resolve) => setTimeout(resolve, 2));
        running--;
      }),
    { maxConcurrentJobs: 8 },
  );
  await using server = await testServer({ agents: [agent], maxConcurrentJobs: 50 });

  const ids = Array.from({ length: 200 }, (_, n) => `job-${n}`);
  await Promise.all(ids.map((id) => startJob(server.service, { id })));
  const jobs = await Promise.all(ids.map((id) => until(server.service, id)));

  expect(jobs.every(({ status }) => status === "completed")).toBe(true);
  expect(most).toBe(8);
});

test("queued jobs have a position, and workspaces take turns", async () => {
  const first = gate();
  const order: string[] = [];
  const agent = agentOf(async ({ job }) => {
    order.push(job.id);
    if (job.id === "first") await first.opened;
  });
  await using server = await testServer({ agents: [agent], maxConcurrentJobs: 1 });
  const { service } = server;
  const start = (id: string, workspace_id: string) => startJob(service, { id, context: { workspace_id } });

  await start("first", "a");
  for (const id of ["a1", "a2", "a3"]) await start(id, "a");
  await start("b1", "b");
  const runner = service.get(RUNNER);
  const positions: (number | undefined)[] = [];
  for (const id of ["a1", "a2", "a3", "b1"]) positions.push((await runner.position(id))?.position);
  const load = runner.load();
  first.open();
  for (const id of ["a1", "a2", "a3", "b1"]) await until(service, id);

  expect(load).toEqual({ running: 1, queued: 4 });
  expect(order.indexOf("b1")).toBeLessThan(order.indexOf("a2"));
  expect(order.filter((id) => id.startsWith("a"))).toEqual(["a1", "a2", "a3"]);
  expect(positions[0]).toBeLessThan(positions[1]!);
  expect(await runner.position("a1")).toBeUndefined();
});

test("a job that waits for a person releases its slot", async () => {
  const fields = [{ name: "yes", field_type: "BooleanField" as const }];
  const agent = agentOf(async ({ job, fields: { n } }) => {
    if (n === 1) return "quick";
    const item = await job.openCase({ id: job.id, name: "Ask" });
    return item.ask({ question: "Now?", fields });
  });
  await using server = await testServer({ agents: [agent], maxConcurrentJobs: 1 });

  await startJob(server.service, { id: "asks", fields: { n: 2 } });
  await startJob(server.service, { id: "quick" });
  const quick = await until(server.service, "quick");
  await until(server.service, "asks", ["awaiting"]);
  await server.service.get(RUNNER).answer("asks", "asks", { answer: { yes: true }, message: null });

  expect(quick.status).toBe("completed");
  expect((await until(server.service, "asks")).result).toEqual({ yes: true });
});

test("a full queue refuses new jobs with 429 and Retry-After, and still responds to a repeated start", async () => {
  const first = gate();
  const agent = agentOf(() => first.opened);
  await using server = await testServer({ agents: [agent], maxConcurrentJobs: 1, maxQueuedJobs: 2 });
  const start = (id: string) =>
    server.request("/agents/worker/jobs", { json: { job_context: jobContext(id), job_fields: {} } });
  for (const id of ["running", "waiting-1", "waiting-2"]) expect((await start(id)).status).toBe(202);

  const refused = await start("one-too-many");
  const repeated = await start("waiting-2");
  first.open();

  expect(refused.status).toBe(429);
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  expect(repeated.status).toBe(202);
  expect(await server.service.get(JOBS).find("one-too-many")).toBeUndefined();
});

test("the same start again starts nothing; other content under the same id is refused", async () => {
  let runs = 0;
  const agent = agentOf(() => ++runs);
  await using server = await testServer({ agents: [agent] });
  const start = (n: number) => startJob(server.service, { id: "job-1", fields: { n } });

  await Promise.all([start(1), start(1), start(1)]);
  await until(server.service, "job-1");
  const again = await start(1);

  expect(again).toMatchObject({ status: "completed", result: 1 });
  await expect(start(2)).rejects.toMatchObject({ type: "job_already_exists", status: 409 });
  expect(runs).toBe(1);
});

test("an Idempotency-Key returns the same job for the same content, and refuses other content", async () => {
  const agent = agentOf(() => "done");
  await using server = await testServer({ agents: [agent] });
  const { service } = server;
  const slug = service.get(AGENTS).list()[0]!.slug;
  const start = (n: number, idempotencyKey: string) =>
    service.get(RUNNER).start(slug, { job_context: jobContext("job-1"), job_fields: { n }, idempotencyKey });

  const [one, other] = await Promise.all([start(1, "key-1"), start(1, "key-1")]);

  expect(other.id).toBe(one.id);
  await expect(start(2, "key-1")).rejects.toMatchObject({ type: "job_already_exists" });
});

test("a queued job is cancelled without having run", async () => {
  const first = gate();
  const ran: string[] = [];
  const agent = agentOf(async ({ job }) => {
    ran.push(job.id);
    await first.opened;
  });
  await using server = await testServer({ agents: [agent], maxConcurrentJobs: 1 });
  await startJob(server.service, { id: "running" });
  await startJob(server.service, { id: "waiting" });

  const stopped = await server.service.get(RUNNER).stop("waiting", "someone");
  first.open();
  await until(server.service, "running");

  expect(stopped).toMatchObject({ status: "cancelled", stop_reason: "stopped" });
  expect(ran).toEqual(["running"]);
  expect(server.service.get(RUNNER).load()).toEqual({ running: 0, queued: 0 });
});

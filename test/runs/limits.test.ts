import type { CaseHandle, JobInstructions, JobStartContext } from "agent-control-service";
import { CASES, JOBS, RUNNER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
import type { StoredJob } from "../../src/core/models/job.ts";
import { agentOf } from "./_agent.ts";
import { jobContext, NO_LIMITS, startJob, until } from "./_jobs.ts";

type Handler = (context: JobStartContext) => unknown;

async function runWith(instructions: Partial<JobInstructions>, handler: Handler): Promise<StoredJob> {
  await using server = await testServer({ agents: [agentOf(handler)] });
  const context = { job_instructions: { ...NO_LIMITS, ...instructions } };
  const { id } = await startJob(server.service, { context });
  return await until(server.service, id);
}

test("max_cases refuses one more case and ends the job, even if the agent catches the refusal", async () => {
  const job = await runWith({ max_cases: 2 }, async ({ job }) => {
    for (const id of ["a", "b", "c", "d"]) await job.openCase({ id, name: id }).catch(() => {});
    return "done";
  });

  expect(job).toMatchObject({ status: "failed", stop_reason: "max_cases", case_count: 2 });
  expect(job.error).toContain("over max_cases 2");
});

test("max_cost refuses a step before it would pass the cap", async () => {
  let runs = 0;
  const job = await runWith({ max_cost: 1 }, async ({ job }) => {
    for (let n = 0; n < 10; n++) await job.step(`step ${n}`, () => ++runs, { cost: 0.3 });
  });

  expect(job).toMatchObject({ status: "failed", stop_reason: "max_cost", total_cost: 0.9 });
  expect(job.error).toContain("from 0.9 to 1.2, over max_cost 1");
  expect(runs).toBe(3);
});

test("max_cost applies to steps that start together", async () => {
  const job = await runWith({ max_cost: 1 }, async ({ job }) => {
    const cases = await Promise.all(["a", "b", "c", "d", "e"].map((id) => job.openCase({ id, name: id })));
    await Promise.all(cases.map((item) => item.step("work", () => 1, { cost: 0.4 })));
  });

  expect(job).toMatchObject({ status: "failed", stop_reason: "max_cost", total_cost: 0.8 });
});

test("a cost that is reported later exceeds the cap at most once", async () => {
  const job = await runWith({ max_cost: 1 }, async ({ job }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    for (let n = 0; n < 10; n++) await item.update({ name: `call ${n}`, cost: 0.4 }).catch(() => {});
  });

  expect(job).toMatchObject({ status: "failed", stop_reason: "max_cost", total_cost: 1.2 });
});

test("a job that costs exactly its maximum is completed", async () => {
  const job = await runWith({ max_cost: 0.3 }, async ({ job }) => {
    for (let n = 0; n < 3; n++) await job.step(`step ${n}`, () => n, { cost: 0.1 });
  });

  expect(job).toMatchObject({ status: "completed", total_cost: 0.3 });
});

test("max_duration ends a handler that does not check the time", async () => {
  const job = await runWith({ max_duration: 1 }, async ({ job }) => {
    await job.step("endless", () => new Promise(() => {}));
  });

  expect(job).toMatchObject({ status: "failed", stop_reason: "max_duration" });
  expect(job.error).toMatch(/max_duration is 1 s/);
});

test("max_duration counts from the start time that the caller gives", async () => {
  const began = Date.now() / 1000 - 100;
  const job = await runWith({ max_duration: 60, job_start_time: began }, ({ job }) =>
    job.step("one", () => 1),
  );

  expect(job).toMatchObject({ status: "failed", stop_reason: "max_duration" });
});

test("a job that is started over has all of its time again, whenever its caller had started it, and its page says so", async () => {
  let offset = 0;
  const clock = () => new Date(Date.now() + offset);
  let fails = true;
  const agent = agentOf(async ({ job }) => {
    await job.step("one", () => {
      if (fails) throw new Error("failed");
    });
  });
  await using server = await testServer({ agents: [agent], clock });
  const job_start_time = Date.now() / 1000 - 600;
  const context = { job_instructions: { ...NO_LIMITS, max_duration: 3600, job_start_time } };
  const { id } = await startJob(server.service, { context });
  await until(server.service, id, ["failed"]);
  const timeOnPage = async () => {
    const page = await server.request(`/admin/jobs/${id}?tab=history`, { headers: { accept: "text/html" } });
    return /[^>]* of 1 h/.exec(await page.text())?.[0].trim();
  };
  expect(await timeOnPage()).toMatch(/^10 min/);

  offset = 24 * 3_600_000;
  expect(await timeOnPage()).toMatch(/^10 min/);
  fails = false;
  expect((await server.request(`/jobs/${id}/retry`, { json: { from: "start" } })).status).toBe(202);

  expect(await until(server.service, id)).toMatchObject({ status: "completed", error: null });
  expect(await timeOnPage()).toMatch(/^\d+ m?s of/);
});

test("stop_on_error ends the job when a case fails, and not without it", async () => {
  const handler: Handler = async ({ job }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    await item.fail("unreadable").catch(() => {});
    await (await job.openCase({ id: "b", name: "b" })).close();
    return "resumed";
  };

  const stopped = await runWith({ stop_on_error: true }, handler);
  const wentOn = await runWith({ stop_on_error: false }, handler);

  expect(stopped).toMatchObject({ status: "failed", stop_reason: "stop_on_error", case_count: 1 });
  expect(wentOn).toMatchObject({ status: "completed", result: "resumed" });
});

test.each([
  ["a case that failed", async (item: CaseHandle) => item.fail("unreadable")],
  [
    "an update that tells an error",
    async (item: CaseHandle) => item.update({ name: "read", error: "unreadable" }),
  ],
] as const)("%s ends a job by default", async (_what, tellError) => {
  const handler: Handler = async ({ job }) => {
    const item = await job.openCase({ id: `${job.id}-a`, name: "a" });
    await tellError(item).catch(() => {});
    return "resumed";
  };
  await using server = await testServer({ agents: [agentOf(handler)] });
  const endOf = async (id: string, job_instructions: unknown) => {
    const job_context = { ...jobContext(id), job_instructions };
    const started = await server.request("/agents/worker/jobs", { json: { job_context, job_fields: {} } });
    expect(started.status).toBe(202);
    return (await until(server.service, id)).stop_reason;
  };

  expect(await endOf("none", null)).toBe("stop_on_error");
  expect(await endOf("left-out", undefined)).toBe("stop_on_error");
  expect(await endOf("empty", {})).toBe("stop_on_error");
  expect(await endOf("a-budget", { max_cost: 5 })).toBe("stop_on_error");
  expect(await endOf("on", { stop_on_error: true })).toBe("stop_on_error");
  expect(await endOf("off", { stop_on_error: false })).toBe(null);
});

test.each([null, { ...NO_LIMITS, stop_on_error: true }])(
  "a step that has no attempts left is for the handler to catch, whatever stop_on_error says",
  async (job_instructions) => {
    const agent = agentOf(async ({ job }) => {
      const item = await job.openCase({ id: "a", name: "a" });
      for (const scope of [job, item]) {
        await scope
          .step("fragile", () => {
            throw new Error("no");
          })
          .catch(() => {});
      }
      return "resumed";
    });
    await using server = await testServer({ agents: [agent] });
    const { id } = await startJob(server.service, { context: { job_instructions } });

    expect(await until(server.service, id)).toMatchObject({ status: "completed", result: "resumed" });
  },
);

test("stop_on_warning ends the job at an update marked as a warning", async () => {
  const handler: Handler = async ({ job }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    await item.update({ name: "odd", warning: true }).catch(() => {});
    return "resumed";
  };

  expect(await runWith({ stop_on_warning: true }, handler)).toMatchObject({ stop_reason: "stop_on_warning" });
  expect(await runWith({}, handler)).toMatchObject({ status: "completed" });
});

test("a method's timeout ends a job that works too long, and waiting for a person is not work", async () => {
  const fields = [{ name: "yes", field_type: "BooleanField" as const }];
  const slow = agentOf(({ job }) => job.step("endless", () => new Promise(() => {})), { timeout: 0.2 });
  const waiting = agentOf(
    async ({ job }) => (await job.openCase({ id: "a", name: "a" })).ask({ question: "Now?", fields }),
    { name: "Waiting", timeout: 0.2 },
  );
  await using server = await testServer({ agents: [slow] });
  await using other = await testServer({ agents: [waiting] });

  await startJob(server.service, { id: "slow" });
  await startJob(other.service, { id: "waits" });
  const job = await until(server.service, "slow");
  await new Promise((resolve) => setTimeout(resolve, 400));
  const waits = await other.service.get(JOBS).get("waits");

  expect(job).toMatchObject({ status: "failed", stop_reason: "timeout" });
  expect(waits.status).toBe("awaiting");
});

test("a job that a limit ended keeps its results and resumes from there with raised limits", async () => {
  let runs = 0;
  const agent = agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    const results: number[] = [];
    const work = (n: number) => {
      runs++;
      return n;
    };
    for (let n = 1; n <= 4; n++) results.push(await item.step(`step ${n}`, () => work(n), { cost: 1 }));
    await item.close({ results });
    return { results };
  });
  await using server = await testServer({ agents: [agent] });
  const { service } = server;
  const { id } = await startJob(service, { context: { job_instructions: { ...NO_LIMITS, max_cost: 2 } } });
  const ended = await until(service, id);
  const kept = await service.get(CASES).get("a");

  await service.get(RUNNER).resume(id, { max_cost: 10 }, "operator");
  const job = await until(service, id, ["completed"]);

  expect(ended).toMatchObject({ status: "failed", stop_reason: "max_cost", total_cost: 2 });
  expect(kept.updates.slice(0, 2).map(({ name }) => name)).toEqual(["step 1", "step 2"]);
  expect(job).toMatchObject({
    result: { results: [1, 2, 3, 4] },
    total_cost: 4,
    stop_reason: null,
    error: null,
  });
  expect(runs).toBe(4);
  expect(await service.get(CASES).get("a")).toMatchObject({ status: "completed", total_cost: 4 });
});

test("a job that no limit ended cannot be resumed", async () => {
  await using server = await testServer({ agents: [agentOf(() => "done")] });
  const { id } = await startJob(server.service);
  await until(server.service, id);

  const resumed = server.service.get(RUNNER).resume(id, { max_cost: 1 });

  await expect(resumed).rejects.toMatchObject({ type: "invalid_transition", status: 409 });
});

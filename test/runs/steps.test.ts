import { CASES, JOBS, RUNNER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
import { agentOf, gate } from "./_agent.ts";
import { startJob, until } from "./_jobs.ts";

test("a failing step is retried, shows each failure in its case, and does not fail the case", async () => {
  const attempts: { attempt: number; key: string }[] = [];
  const agent = agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    const value = await item.step(
      "flaky",
      ({ attempt, idempotencyKey }) => {
        attempts.push({ attempt, key: idempotencyKey });
        if (attempt < 3) throw new Error(`failure ${attempt}`);
        return attempt;
      },
      { retries: 3, backoff: { initial: "1ms" } },
    );
    await item.close({ value });
  });
  await using server = await testServer({ agents: [agent] });

  const { id } = await startJob(server.service);
  await until(server.service, id, ["completed"]);

  const item = await server.service.get(CASES).get("a");
  expect(attempts.map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
  expect(new Set(attempts.map(({ key }) => key)).size).toBe(1);
  expect(item.updates.map(({ error }) => error)).toEqual(["failure 1", "failure 2", null, null]);
  expect(item).toMatchObject({ status: "completed", final_delivery: { value: 3 } });
});

test("a step that has used up its retries rejects with its error, which the handler may catch", async () => {
  const agent = agentOf(async ({ job }) => {
    const failure = await job
      .step("hopeless", () => Promise.reject(new Error("no such table")), {
        retries: 1,
        backoff: { initial: "1ms" },
      })
      .catch((error: Error) => error);
    return { name: (failure as Error).name, text: (failure as Error).message };
  });
  await using server = await testServer({ agents: [agent] });

  const { id } = await startJob(server.service);

  expect((await until(server.service, id)).result).toEqual({
    name: "StepFailedError",
    text: "no such table",
  });
});

test("a step's attempt has its own time limit, and its signal fires", async () => {
  let aborted = false;
  const agent = agentOf(({ job }) =>
    job.step(
      "slow",
      ({ signal }) =>
        new Promise(() => {
          signal.addEventListener("abort", () => {
            aborted = true;
          });
        }),
      { timeout: "20ms" },
    ),
  );
  await using server = await testServer({ agents: [agent] });

  const { id } = await startJob(server.service);

  expect((await until(server.service, id)).error).toContain('Step "slow" took longer than 20ms');
  expect(aborted).toBe(true);
});

test.each([
  ["a function", () => () => 1, /is a function/],
  ["a date", () => ({ at: new Date() }), /step "odd".at is a Date/],
  ["NaN", () => [Number.NaN], /\[0\] is NaN/],
  ["a circle", () => circle(), /contains itself/],
])("a result that JSON cannot represent is refused immediately: %s", async (_what, make, message) => {
  let tries = 0;
  const agent = agentOf(({ job }) =>
    job.step(
      "odd",
      () => {
        tries++;
        return make();
      },
      { retries: 3, backoff: { initial: "1ms" } },
    ),
  );
  await using server = await testServer({ agents: [agent] });

  const { id } = await startJob(server.service);

  expect((await until(server.service, id)).error).toMatch(message);
  expect(tries).toBe(1);
});

function circle(): unknown {
  const one: Record<string, unknown> = {};
  one.self = one;
  return one;
}

test("50 concurrent updates of a case get the indexes 1 to 50", async () => {
  const agent = agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    await Promise.all(Array.from({ length: 50 }, (_, n) => item.update({ name: `update ${n}`, cost: 0.01 })));
  });
  await using server = await testServer({ agents: [agent], store: undefined });

  const { id } = await startJob(server.service);
  await until(server.service, id, ["completed"]);

  const { updates, total_cost } = await server.service.get(CASES).get("a");
  expect(updates.slice(0, 50).map(({ index }) => index)).toEqual(Array.from({ length: 50 }, (_, n) => n + 1));
  expect(new Set(updates.map(({ name }) => name)).size).toBe(51);
  expect(total_cost).toBeCloseTo(0.5);
});

test("a failed job is retried from its last successful step", async () => {
  const runs: string[] = [];
  let isBroken = true;
  const agent = agentOf(async ({ job }) => {
    await job.step("first", () => void runs.push("first"));
    const item = await job.openCase({ id: "a", name: "a" });
    await item.step("second", () => void runs.push("second"));
    await item.step("third", ({ attempt }) => {
      runs.push(`third ${attempt}`);
      if (isBroken) throw new Error("broken");
    });
    await item.close();
    return "done";
  });
  await using server = await testServer({ agents: [agent] });
  const { id } = await startJob(server.service);
  const failed = await until(server.service, id);

  isBroken = false;
  await server.service.get(RUNNER).retry(id, "last_step", "operator");
  const job = await until(server.service, id, ["completed"]);

  expect(failed).toMatchObject({ status: "failed", error: "broken" });
  expect(job).toMatchObject({
    result: "done",
    error: null,
    stop_reason: null,
    finished_at: expect.any(String),
  });
  expect(runs).toEqual(["first", "second", "third 1", "third 2"]);
  expect((await server.service.get(CASES).get("a")).status).toBe("completed");
});

test("a failed job is retried from the start, with nothing recorded", async () => {
  const runs: string[] = [];
  const agent = agentOf(async ({ job }) => {
    await job.step("first", ({ idempotencyKey }) => void runs.push(idempotencyKey));
    const item = await job.openCase({ id: "a", name: "a" });
    await item.step("second", () => 1, { cost: 1 });
    if (runs.length === 1) throw new Error("broken");
    await item.close();
  });
  await using server = await testServer({ agents: [agent] });
  const { id } = await startJob(server.service);
  await until(server.service, id);

  await server.service.get(RUNNER).retry(id, "start");
  const job = await until(server.service, id, ["completed"]);

  expect(new Set(runs).size).toBe(2);
  expect(job).toMatchObject({ case_count: 1, total_cost: 1 });
  expect((await server.service.get(CASES).get("a")).updates).toHaveLength(2);
});

test("stop makes a job cancelling, fires the signal, runs job_stop, and then it is cancelled", async () => {
  const begun = gate();
  const cleaned: string[] = [];
  let reason: unknown;
  const agent = agentOf(
    async ({ job, signal }) => {
      const item = await job.openCase({ id: "a", name: "a" });
      await item.step("endless", () => {
        begun.open();
        return new Promise(() => signal.addEventListener("abort", () => (reason = signal.reason)));
      });
    },
    { methods: { job_stop: { run: ({ job }) => void cleaned.push(job.id) } } },
  );
  await using server = await testServer({ agents: [agent] });
  const { id } = await startJob(server.service);
  await begun.opened;

  const stopping = await server.service.get(RUNNER).stop(id, "someone");
  const job = await until(server.service, id);

  expect(stopping.status).toBe("cancelling");
  expect(job).toMatchObject({ status: "cancelled", stop_reason: "stopped" });
  expect(cleaned).toEqual([id]);
  expect(reason).toMatchObject({ name: "RunEndedError", reason: "stopped" });
  expect((await server.service.get(CASES).get("a")).status).toBe("cancelled");
});

test("a signal that is first read after the stop has already fired, for the handler and for its steps", async () => {
  const begun = gate();
  const late = gate();
  const seen: AbortSignal[] = [];
  const agent = agentOf(async (context) => {
    await context.job.step("work", async (info) => {
      begun.open();
      await late.opened;
      seen.push(context.signal, info.signal);
    });
  });
  await using server = await testServer({ agents: [agent] });
  const { id } = await startJob(server.service);
  await begun.opened;

  await server.service.get(RUNNER).stop(id);
  late.open();
  await until(server.service, id);

  await expect.poll(() => seen.length).toBe(2);
  expect(seen.map(({ aborted }) => aborted)).toEqual([true, true]);
  expect(seen[0]!.reason).toMatchObject({ name: "RunEndedError", reason: "stopped" });
});

test("copies of what a handler and a step are given have the signals, too", async () => {
  const seen: unknown[] = [];
  const agent = agentOf(async (context) => {
    const copy = { ...context, more: 1 };
    await copy.job.step("one", (info) => {
      const copied = { ...info };
      seen.push(copied.signal === info.signal, copied.attempt, Object.keys(info).toSorted());
    });
    seen.push(copy.signal instanceof AbortSignal, copy.signal === context.signal, copy.fields);
  });
  await using server = await testServer({ agents: [agent] });

  const { id } = await startJob(server.service);
  await until(server.service, id, ["completed"]);

  const names = ["attempt", "emit", "file", "idempotencyKey", "report", "signal", "traceHeaders"];
  expect(seen).toEqual([true, 1, names, true, true, { n: 1 }]);
});

test("a handler that ignores its signal is abandoned after the grace period, and can no longer write", async () => {
  const begun = gate();
  const late = gate();
  let refused: unknown;
  const agent = agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    begun.open();
    await late.opened;
    await item.update({ name: "too late" }).catch((error: unknown) => {
      refused = error;
    });
  });
  await using server = await testServer({ agents: [agent], stopGrace: 0.1 });
  const { id } = await startJob(server.service);
  await begun.opened;

  await server.service.get(RUNNER).stop(id);
  const job = await until(server.service, id);
  late.open();
  await expect.poll(() => refused).toMatchObject({ name: "RunEndedError" });

  expect(job.status).toBe("cancelled");
  expect((await server.service.get(CASES).get("a")).updates.map(({ name }) => name)).toEqual(["cancelled"]);
});

test("an operator's status ends the run, whose later writes are refused", async () => {
  const begun = gate();
  const late = gate();
  let refused: unknown;
  const agent = agentOf(async ({ job }) => {
    begun.open();
    await late.opened;
    await job
      .step("more", () => 1)
      .catch((error: unknown) => {
        refused = error;
      });
    return "overwritten";
  });
  await using server = await testServer({ agents: [agent] });
  const { id } = await startJob(server.service);
  await begun.opened;

  await server.service.get(RUNNER).override(id, "completed", "operator");
  late.open();
  await expect.poll(() => refused).toMatchObject({ name: "RunEndedError" });

  const job = await server.service.get(JOBS).get(id);
  expect(job).toMatchObject({ status: "completed", result: null, stop_reason: "overridden" });
});

test("a deleted job is removed with its cases, and its run no longer writes", async () => {
  const begun = gate();
  const agent = agentOf(async ({ job, signal }) => {
    await job.openCase({ id: "a", name: "a" });
    begun.open();
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    await job.openCase({ id: "b", name: "b" });
  });
  await using server = await testServer({ agents: [agent] });
  const { service } = server;
  const { id } = await startJob(service);
  await begun.opened;

  expect(await service.get(RUNNER).remove(id, "operator")).toMatchObject({ cases: 1 });

  await expect.poll(() => service.get(RUNNER).load().running).toBe(0);
  expect(await service.get(JOBS).find(id)).toBeUndefined();
  expect((await service.get(CASES).list()).total).toBe(0);
});

test("a step with a secret in its name is found in the record, in which the secret is masked", async () => {
  let failures = 1;
  const agent = {
    ...agentOf(async ({ job, parameters }) => {
      await job.step(`log in with ${parameters.TOKEN}`, () => "ok");
      await job.step("work", () => {
        if (failures-- > 0) throw new Error("not yet");
      });
    }),
    parameters: [{ name: "TOKEN", value: "planted-token-4711", is_secret: true }],
  };
  await using server = await testServer({ agents: [agent] });
  const { id } = await startJob(server.service);
  await until(server.service, id, ["failed"]);

  await server.service.get(RUNNER).retry(id, "last_step");

  expect(await until(server.service, id, ["completed", "failed"])).toMatchObject({ status: "completed" });
  expect(JSON.stringify(await server.service.get(JOBS).log(id))).not.toContain("planted-token-4711");
});

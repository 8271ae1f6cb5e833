import { setTimeout as delay } from "node:timers/promises";
import {
  type AgentDefinition,
  NonRetryableError,
  RetryAfterError,
  StepFailedError,
  type StepOptions,
} from "agent-control-service";
import { JOBS, RUNNER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
import type { AttemptEntry, RunEntry } from "../../src/core/models/run-entry.ts";
import { agentOf } from "./_agent.ts";
import { jobContext } from "./_jobs.ts";
import { emptyStore, everyDeath, JOB, Life } from "./_lives.ts";

/** An agent whose one step fails with each of these, then succeeds; `tries` counts the calls of its function. */
function failing(errors: readonly unknown[], options: StepOptions, tries: number[] = []): AgentDefinition {
  return agentOf(({ job }) =>
    job.step(
      "call",
      ({ attempt }) => {
        tries.push(attempt);
        if (attempt <= errors.length) throw errors[attempt - 1];
        return attempt;
      },
      options,
    ),
  );
}

async function run(agent: AgentDefinition) {
  const life = new Life(await emptyStore(), agent);
  await life.start();
  const job = (await life.ended())!;
  return { job, entries: await life.entries() };
}

const attemptsOf = (entries: readonly RunEntry[]) =>
  entries.filter((entry): entry is AttemptEntry => entry.type === "attempt");

/** Milliseconds that a failed try has the next one wait. */
const pauseOf = ({ at, next_at }: AttemptEntry) => Date.parse(next_at!) - Date.parse(at);

test("a NonRetryableError fails its step immediately, with all retries left", async () => {
  const tries: number[] = [];
  const quick = { retries: 5, backoff: { initial: "1ms" } } as const;

  const { job, entries } = await run(
    failing([new Error("busy"), new NonRetryableError("no key")], quick, tries),
  );

  expect(tries).toEqual([1, 2]);
  expect(job).toMatchObject({ status: "failed", error: "no key" });
  expect(entries.find(({ type }) => type === "call")).toMatchObject({
    attempts: 2,
    error: { name: "NonRetryableError", message: "no key" },
  });
});

test("a NonRetryableError that the handler catches is the same whichever write the process dies at", async () => {
  const { undisturbed, resumed } = await everyDeath(() =>
    agentOf(async ({ job }) => {
      const refuse = () => {
        throw new NonRetryableError("rejected");
      };
      const failure = await job.step("call", refuse, { retries: 3 }).catch((error: unknown) => error);
      if (!(failure instanceof StepFailedError)) throw failure;
      const { name, message } = failure.cause as Error;
      return { name, message, told: await job.step("tell", () => failure.message) };
    }),
  );

  expect(undisturbed.result).toEqual({ name: "NonRetryableError", message: "rejected", told: "rejected" });
  expect(resumed.length).toBeGreaterThan(2);
  for (const one of resumed) expect(one.result).toEqual(undisturbed.result);
});

test("the errors of another copy of the package count too", async () => {
  class NonRetryable extends Error {
    override readonly name = "NonRetryableError";
  }
  const tries: number[] = [];

  await run(failing([new NonRetryable("no"), new Error("busy")], { retries: 5 }, tries));

  expect(tries).toEqual([1]);
});

test("retryIf decides after which errors a step is retried", async () => {
  const tries: number[] = [];
  const asked: unknown[] = [];
  const errors = [new Error("429"), new Error("401"), new Error("429")];
  const retryIf = (error: unknown) => {
    asked.push(error);
    return (error as Error).message === "429";
  };

  const { job } = await run(failing(errors, { retries: 5, backoff: { initial: "1ms" }, retryIf }, tries));

  expect(tries).toEqual([1, 2]);
  expect(asked).toEqual(errors.slice(0, 2));
  expect(job).toMatchObject({ status: "failed", error: "401" });
});

test("retryIf is not called if no attempt is left, and cannot override a NonRetryableError", async () => {
  const asked: unknown[] = [];
  const retryIf = (error: unknown) => {
    asked.push(error);
    return true;
  };

  await run(failing([new Error("busy")], { retryIf }));
  await run(failing([new NonRetryableError("no")], { retries: 3, retryIf }));

  expect(asked).toEqual([]);
});

test.each<[string, (error: unknown) => boolean, string]>([
  ["throws", () => JSON.parse("{") as boolean, "retryIf failed: "],
  ["answers later", (async () => false) as never, "retryIf must return true or false synchronously"],
])("a step whose retryIf %s fails and says so", async (_, retryIf, message) => {
  const tries: number[] = [];

  const { job } = await run(failing([new Error("busy")], { retries: 3, retryIf }, tries));

  expect(tries).toEqual([1]);
  expect(job.status).toBe("failed");
  expect(job.error).toContain(message);
});

test("a RetryAfterError sets the wait before the next attempt, shorter or longer than the backoff, and counts as an attempt", async () => {
  const errors = [new RetryAfterError("busy", "20ms"), new RetryAfterError("busy", 0.03), new Error("down")];
  const tries: number[] = [];
  const backoff = { initial: "10ms", max: "10ms" } as const;

  const { job, entries } = await run(failing(errors, { retries: 2, backoff }, tries));

  expect(attemptsOf(entries).map(pauseOf)).toEqual([20, 30]);
  expect(tries).toEqual([1, 2, 3]);
  expect(job).toMatchObject({ status: "failed", error: "down" });
});

test("a RetryAfterError accepts a time, and the Retry-After header of a response", () => {
  const headers = (value?: string) => new Headers(value === undefined ? {} : { "Retry-After": value });
  const time = new Date("2026-02-01T00:00:00.000Z");
  const after = (given: ConstructorParameters<typeof RetryAfterError>[1]) =>
    new RetryAfterError("x", given).after;

  expect(after(time)).toEqual(time);
  expect(after(headers("120"))).toBe(120_000);
  expect(after(headers("Sun, 01 Feb 2026 00:00:00 GMT"))).toEqual(time);
  for (const unreadable of [undefined, "soon", "-5", "1.5 hours", ""])
    expect(after(headers(unreadable))).toBeUndefined();
  for (const wrong of [Number.NaN, -1, "5 minutes", new Date("never"), null])
    expect(() => after(wrong as never)).toThrow(TypeError);
});

test("without a valid Retry-After the backoff sets the wait; a time in the past means immediately", async () => {
  const errors = [new RetryAfterError("busy", new Headers()), new RetryAfterError("busy", new Date(0))];

  const { job, entries } = await run(failing(errors, { retries: 2, backoff: { initial: "15ms" } }));

  expect(attemptsOf(entries).map(pauseOf)).toEqual([15, 0]);
  expect(job.status).toBe("completed");
});

test("the wait of a RetryAfterError continues across processes that are shorter than it", async () => {
  const tries: number[] = [];
  const errors = [new RetryAfterError("busy", "2h")];
  const agent = failing(errors, { retries: 1, backoff: { initial: "1ms", max: "1ms" } }, tries);
  const store = await emptyStore();
  const first = new Life(store, agent);
  await first.start();
  await expect.poll(async () => attemptsOf(await first.entries())).toHaveLength(1);
  const [failed] = attemptsOf(await first.entries());
  first.die();

  const second = new Life(store, agent);
  await second.resume();
  await delay(50);
  const afterSecond = [...tries];
  second.die();
  await delay(0);
  const third = new Life(store, agent, { clock: () => new Date(Date.parse(failed!.next_at!) + 1) });
  await third.resume();
  const job = (await third.ended())!;

  expect(pauseOf(failed!)).toBe(2 * 3_600_000);
  expect(afterSecond).toEqual([1]);
  expect(tries).toEqual([1, 2]);
  expect(job).toMatchObject({ id: JOB, status: "completed", result: 2 });
});

test("if the clock was set back, the wait is not longer than a whole one", async () => {
  const tries: number[] = [];
  const agent = failing([new RetryAfterError("busy", "30ms")], { retries: 1 }, tries);
  const store = await emptyStore();
  const first = new Life(store, agent);
  await first.start();
  await expect.poll(async () => attemptsOf(await first.entries())).toHaveLength(1);
  first.die();
  await delay(0);

  const second = new Life(store, agent, { clock: () => new Date(Date.now() - 86_400_000) });
  await second.resume();

  expect(await second.ended()).toMatchObject({ status: "completed" });
});

test("a job that waits long for its next attempt lets another one run", async () => {
  const agent = agentOf(({ job, fields }) =>
    job.step(
      "call",
      () => {
        if (fields.n === 1) throw new RetryAfterError("busy", "2h");
        return "done";
      },
      { retries: 1 },
    ),
  );
  await using server = await testServer({ agents: [agent], maxConcurrentJobs: 1 });
  const runner = server.service.get(RUNNER);
  await runner.start("worker", { job_context: jobContext("waits"), job_fields: { n: 1 } });
  await expect
    .poll(async () => attemptsOf((await server.service.get(JOBS).log("waits")).map(({ entry }) => entry)))
    .toHaveLength(1);

  await runner.start("worker", { job_context: jobContext("next"), job_fields: { n: 2 } });

  expect(await runner.ended("next", 20_000)).toMatchObject({ status: "completed", result: "done" });
  expect(await server.service.get(JOBS).get("waits")).toMatchObject({ status: "in_progress" });
});

import type { AskOptions, Service } from "agent-control-service";
import { CASES, JOBS, RUNNER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { expect, test } from "vitest";
import type { FieldsInput } from "../../src/core/agents/fields-input.ts";
import { agentOf } from "./_agent.ts";
import { startJob, until } from "./_jobs.ts";

const FIELDS = v.object({
  approved: v.boolean(),
  note: v.optional(v.pipe(v.string(), v.maxLength(5)), "none"),
});

const asker = (options: Partial<AskOptions<FieldsInput>> = {}) =>
  agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    const answer = await item.ask({ question: "Pay it?", fields: FIELDS, ...options });
    await item.close({ answer });
    return answer;
  });

const answer = (service: Service, values: Record<string, unknown>) =>
  service.get(RUNNER).answer("job-1", "a", { answer: values, message: "by phone" }, "someone");

test("a question is stored in both formats, and job and case await its answer", async () => {
  await using server = await testServer({ agents: [asker({ deadline: "1h" })] });

  await startJob(server.service, { id: "job-1" });
  const job = await until(server.service, "job-1", ["awaiting"]);
  const item = await server.service.get(CASES).get("a");

  expect(job.open_questions).toBe(1);
  expect(item.status).toBe("awaiting");
  expect(item.question).toMatchObject({
    question: "Pay it?",
    deadline: expect.any(String),
    on_timeout: "fail",
  });
  expect(item.updates.at(-1)?.payload).toMatchObject({
    supervaizer_form: { question: "Pay it?", answer: { fields: item.question?.fields } },
    question: { id: "0" },
  });
});

test("an answer is checked against the fields, and the first valid one wins", async () => {
  await using server = await testServer({ agents: [asker()] });
  const { service } = server;
  await startJob(service, { id: "job-1" });
  await until(service, "job-1", ["awaiting"]);

  await expect(answer(service, { approved: "yes" })).rejects.toMatchObject({ type: "invalid_parameters" });
  await expect(answer(service, { approved: true, note: "too long" })).rejects.toMatchObject({ status: 422 });
  await expect(answer(service, { approved: true, more: 1 })).rejects.toMatchObject({ status: 422 });
  const answers = await Promise.allSettled([
    answer(service, { approved: true }),
    answer(service, { approved: false }),
  ]);
  const job = await until(service, "job-1");

  expect(answers.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
  expect(answers[1]).toMatchObject({ reason: { type: "invalid_transition", status: 409 } });
  expect(job).toMatchObject({ status: "completed", result: { approved: true, note: "none" } });
});

test.each([
  ["fail", "failed", "failed"],
  ["cancel", "cancelled", "cancelled"],
] as const)(
  "a deadline with onTimeout %s ends the case, and a job that does not catch the error",
  async (onTimeout, inCase, inJob) => {
    await using server = await testServer({ agents: [asker({ deadline: "50ms", onTimeout })] });

    await startJob(server.service, { id: "job-1" });
    const job = await until(server.service, "job-1");

    expect(job).toMatchObject({ status: inJob, stop_reason: "question_expired" });
    expect((await server.service.get(CASES).get("a")).status).toBe(inCase);
    await expect(answer(server.service, { approved: true })).rejects.toMatchObject({ status: 409 });
  },
);

test("a deadline with a default continues with it", async () => {
  const options = { deadline: "50ms", onTimeout: "default", default: { approved: false } } as const;
  await using server = await testServer({ agents: [asker(options)] });

  await startJob(server.service, { id: "job-1" });

  expect(await until(server.service, "job-1")).toMatchObject({
    status: "completed",
    result: { approved: false, note: "none" },
  });
});

test("a default that does not fit the fields is refused when the question is asked", async () => {
  const options = { deadline: "1h", onTimeout: "default", default: { approved: "maybe" } } as const;
  await using server = await testServer({ agents: [asker(options)] });

  await startJob(server.service, { id: "job-1" });

  expect((await until(server.service, "job-1")).error).toMatch(
    /default answer .* approved must be a boolean/,
  );
});

test("a stop while a question is open cancels case and job, which no longer accept an answer", async () => {
  await using server = await testServer({ agents: [asker()] });
  const { service } = server;
  await startJob(service, { id: "job-1" });
  await until(service, "job-1", ["awaiting"]);

  await service.get(RUNNER).stop("job-1");
  const late = answer(service, { approved: true });

  await expect(late).rejects.toMatchObject({ type: "invalid_transition" });
  expect(await until(service, "job-1")).toMatchObject({ status: "cancelled", open_questions: 0 });
  expect(await service.get(CASES).get("a")).toMatchObject({ status: "cancelled", question: null });
});

test("questions and deadlines survive a restart", async () => {
  await using first = await testServer({ agents: [asker({ deadline: "1h" })], store: undefined });
  await startJob(first.service, { id: "job-1" });
  await until(first.service, "job-1", ["awaiting"]);
  const asked = (await first.service.get(CASES).get("a")).question;
  await first.service.close();

  const options = { store: undefined, dataDir: first.dataDir };
  await using second = await testServer({ agents: [asker({ deadline: "1h" })], ...options });
  await second.service.ready();

  expect((await second.service.get(CASES).get("a")).question).toEqual(asked);
  expect((await second.service.get(JOBS).get("job-1")).status).toBe("awaiting");
});

// @area core
import type { Job } from "agent-control-service";
import { expect, it } from "vitest";
import { JOBS, RUNNER, STORE } from "../../src/core/service/tokens.ts";
import { SharedStore, startInstances } from "./_instances.ts";

const headers = { "idempotency-key": "key-1" };
const distant = () => new SharedStore({ latency: 50 });
const body = { job_fields: { name: "Ada" } };

it("requests with one idempotency key start one job, whichever instances they reach", async () => {
  const [one, other] = await startInstances([{}, {}], distant());
  const start = (at: number) =>
    (at % 2 ? one : other).request("/agents/greeter/jobs", { json: body, headers });

  const answers = await Promise.all(Array.from({ length: 8 }, (_, at) => start(at)));

  const jobs = (await Promise.all(answers.map((answer) => answer.json()))) as Job[];
  expect(new Set(jobs.map(({ id }) => id)).size).toBe(1);
  expect((await one.service.get(JOBS).list()).total).toBe(1);
});

it("another request with that key is refused, on each instance", async () => {
  const [one, other] = await startInstances([{}, {}], distant());
  const start = (server: typeof one, name: string) =>
    server.request("/agents/greeter/jobs", { json: { job_fields: { name } }, headers });

  const answers = await Promise.all([start(one, "Ada"), start(other, "Bob")]);

  expect(answers.map(({ status }) => status).sort()).toEqual([202, 409]);
  expect((await one.service.get(JOBS).list()).total).toBe(1);
});

it("forks with one idempotency key are one fork, whichever instances they reach", async () => {
  const [one, other] = await startInstances([{}, {}], distant());
  const { job } = await one.run("greeter", { fields: { name: "Ada" } });
  const fork = (server: typeof one) =>
    server.request(`/jobs/${job.id}/fork`, { json: { from: "start" }, headers });

  const answers = await Promise.all([fork(one), fork(other), fork(one), fork(other)]);

  const forks = (await Promise.all(answers.map((answer) => answer.json()))) as Job[];
  expect(new Set(forks.map(({ id }) => id)).size).toBe(1);
  expect((await one.service.get(JOBS).list()).total).toBe(2);
});

it("a key is free again once its job is removed permanently, and nothing of it stays", async () => {
  const [one, other] = await startInstances([{}, {}], distant());
  const start = async (server: typeof one) => {
    const answer = await server.request("/agents/greeter/jobs", {
      json: body,
      headers: { ...headers, prefer: "wait=10" },
    });
    return ((await answer.json()) as Job).id;
  };
  const first = await start(one);

  await other.service.get(RUNNER).remove(first, "a test", { permanent: true });

  expect(await one.service.get(STORE).table("IdempotencyKey").ids()).toEqual([]);
  expect(await start(other)).not.toBe(first);
});

it("the same event from two instances is one event", async () => {
  const [one, other] = await startInstances([{}, {}], distant());

  await Promise.all([one, other].map((server) => server.sendEvent("paid", { sum: 1 }, { id: "p-1" })));

  expect(await one.service.get(STORE).table("ReceivedEvent").ids()).toEqual(["paid/p-1"]);
});

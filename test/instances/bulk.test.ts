// @area core
import type { TestServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { AUDIT, JOBS } from "../../src/core/service/tokens.ts";
import { SharedStore, startInstances } from "./_instances.ts";

interface Bulk {
  readonly id: string;
  readonly hash: string;
  readonly state: string;
  readonly done: number;
  readonly count: number;
}

const read = async (server: TestServer, path: string, json?: unknown) => {
  const answer = await server.request(`/admin/api/bulk${path}`, json === undefined ? {} : { json });
  return (await answer.json()) as Bulk;
};

async function twoInstances(jobs: number, store = new SharedStore()) {
  const [one, other] = await startInstances([{}, {}], store);
  for (let n = 0; n < jobs; n++) await one.run("greeter", { fields: { name: "Ada" } });
  const preview = await read(one, "", { kind: "jobs", action: "delete", all: true });
  return { one, other, preview };
}

it("a preview made on one instance is shown and run by another, and its progress is seen on both", async () => {
  const { one, other, preview } = await twoInstances(3);

  const shown = await read(other, `/${preview.id}`);
  await read(other, `/${preview.id}/run`, { hash: preview.hash });

  expect(shown).toMatchObject({ hash: preview.hash, count: 3, state: "preview" });
  await expect.poll(() => read(one, `/${preview.id}`)).toMatchObject({ state: "done", done: 3 });
  expect((await one.service.get(JOBS).list()).total).toBe(0);
});

it("a preview is run once, also when several instances are asked at the same time", async () => {
  const { one, other, preview } = await twoInstances(2, new SharedStore({ latency: 20 }));

  const answers = await Promise.all(
    [one, other, one, other].map((server) =>
      server.request(`/admin/api/bulk/${preview.id}/run`, { json: { hash: preview.hash } }),
    ),
  );

  expect(answers.map(({ status }) => status).sort()).toEqual([202, 409, 409, 409]);
  await expect.poll(() => read(one, `/${preview.id}`)).toMatchObject({ state: "done", done: 2 });
  expect((await one.service.get(AUDIT).list({ action: "bulk.run" })).items).toHaveLength(1);
});

it("an operation is aborted from another instance", async () => {
  const store = new SharedStore();
  const { one, other, preview } = await twoInstances(40, store);
  store.latency = 400;
  await read(one, `/${preview.id}/run`, { hash: preview.hash });

  const aborted = await read(other, `/${preview.id}/abort`, {});

  store.latency = 0;
  expect(aborted.state).toBe("aborted");
  const left = async () => (await one.service.get(JOBS).list()).total;
  await expect.poll(async () => (await read(one, `/${preview.id}`)).state).toBe("aborted");
  expect(await left()).toBeGreaterThan(0);
});

import type { FileValue, ServerOptions } from "agent-control-service";
import { CASES, JOBS, RUNNER, STORE } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { expect, test } from "vitest";
import { FileChunks } from "../../src/core/store/files/file-chunks.ts";
import { agentOf, gate } from "./_agent.ts";
import { startJob, until } from "./_jobs.ts";

test("results of megabytes, and many large ones in one case, are stored, shown and replayed", async () => {
  const [done, goOn] = [gate(), gate()];
  let ran = 0;
  const agent = agentOf(async ({ job }) => {
    const give = (length: number) => () => {
      ran++;
      return { text: "x".repeat(length) };
    };
    const { text } = await job.step("one", give(5_000_000));
    const item = await job.openCase({ id: "a", name: "a" });
    let sum = text.length;
    for (let n = 1; n <= 200; n++) sum += (await item.step(`step ${n}`, give(200_000))).text.length;
    done.open();
    if (ran === 201) await goOn.opened;
    return { sum };
  });
  await using first = await testServer({ agents: [agent], store: undefined, shutdownGrace: 0 });
  await startJob(first.service, { id: "job-1" });
  await done.opened;
  const paths = [
    "/jobs/job-1",
    "/jobs/job-1/cases",
    "/admin/jobs/job-1",
    "/admin/cases/a",
    "/admin/api/jobs",
  ];
  const shown = await Promise.all(paths.map((path) => first.request(path)));
  const lengths = await Promise.all(shown.map(async (response) => (await response.text()).length));
  await first.service.close();
  ran = 300;

  await using second = await testServer({ agents: [agent], store: undefined, dataDir: first.dataDir });
  const job = await until(second.service, "job-1");
  const log = await second.request("/jobs/job-1/stream").then((response) => response.text());

  expect(shown.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
  expect(Math.max(...lengths)).toBeLessThan(1_000_000);
  expect(job).toMatchObject({ status: "completed", result: { sum: 45_000_000 } });
  expect(ran).toBe(300);
  // The result of 5 MB is named, not given.
  expect(log.length).toBeGreaterThan(40_000_000);
  expect(log.length).toBeLessThan(45_000_000);
});

/** A service whose job has a step with a result of ten megabytes, and waits for an answer then; how often steps ran. */
async function withLarge(text: string, { runs }: { runs: string[] }, options: Partial<ServerOptions> = {}) {
  const ran = <T>(name: string, value: T): T => {
    runs.push(name);
    return value;
  };
  const agent = agentOf(async ({ job }) => {
    const all = await Promise.all([
      job.step("small", () => ran("small", 1)),
      job.step("large", () => ran("large", { text, list: [1, 2, 3] })),
      job.step("same", () => ran("same", { text, list: [1, 2, 3] })),
    ]);
    const large = all[1];
    const next = await job.step("next", () => ran("next", large.text.length));
    const item = await job.openCase({ id: "a", name: "a" });
    const { go } = await item.ask("go", { question: "Continue?", fields: v.object({ go: v.string() }) });
    return { next, go, list: large.list, isSame: large.text === text };
  });
  return testServer({ agents: [agent], store: undefined, ...options });
}

/** Answers the question of the job once it is asked. */
async function answer({ service }: Pick<Awaited<ReturnType<typeof testServer>>, "service">, id: string) {
  await until(service, id, ["awaiting"]);
  const [item] = (await service.get(CASES).list({ where: { job_id: id } })).items;
  await service.get(RUNNER).answer(id, item!.id, { answer: { go: "yes" }, message: null });
}

test("a result of ten megabytes costs the record a short line, and is given again after a start", async () => {
  const runs: string[] = [];
  const text = "0123456789".repeat(1_000_000);
  await using first = await withLarge(text, { runs }, { shutdownGrace: 0 });
  await startJob(first.service, { id: "job-1" });
  await until(first.service, "job-1", ["awaiting"]);
  const entries = await first.service.get(JOBS).log("job-1");
  const list = await (await first.request("/jobs/job-1/files")).json();
  await first.service.close();

  await using second = await withLarge(text, { runs }, { dataDir: first.dataDir });
  await answer(second, "job-1");
  const job = await until(second.service, "job-1");

  const lines = entries.map(({ entry }) => JSON.stringify(entry).length);
  expect(Math.max(...lines)).toBeLessThan(600);
  const calls = entries.map(({ entry }) => entry).filter((entry) => entry.type === "call");
  const large = calls.find(({ name }) => name === "large")!;
  expect(large).toMatchObject({
    by_reference: true,
    result: { name: "result.json", type: "application/json", size: 10_000_026 },
  });
  expect(calls.find(({ name }) => name === "same")!.result).toEqual(large.result);
  expect(calls.find(({ name }) => name === "small")).toMatchObject({ result: 1 });
  expect(list).toEqual([]);
  expect(job).toMatchObject({
    status: "completed",
    result: { next: 10_000_000, go: "yes", list: [1, 2, 3], isSame: true },
  });
  expect(runs.toSorted()).toEqual(["large", "next", "same", "small"]);
  // Two steps gave it; it is stored once.
  expect((await new FileChunks(second.service.get(STORE).contents!).list()).size).toBe(1);
});

test("a large result is downloaded where its record names it, and linked on the page of its step", async () => {
  const text = "x".repeat(300_000);
  await using server = await withLarge(text, { runs: [] });
  const { id } = await startJob(server.service);
  await until(server.service, id, ["awaiting"]);
  const stream = await server.request(`/jobs/${id}/stream?follow=false`);
  const entries = await server.service.get(JOBS).log(id);
  const at = entries.findIndex(({ entry }) => entry.type === "call" && entry.name === "large");
  const { sha256 } = (entries[at]!.entry as { result: FileValue }).result;
  await stream.body?.cancel();

  const sent = await server.request(`/jobs/${id}/files/${sha256}`);
  const page = await (await server.request(`/admin/jobs/${id}?step=${encodeURIComponent(`step:1`)}`)).text();
  const view = await server.request(`/admin/jobs/${id}/files/${sha256}/view`);

  expect(sent.headers.get("content-disposition")).toContain("result.json");
  expect(await sent.json()).toEqual({ text, list: [1, 2, 3] });
  expect(page.length).toBeLessThan(200_000);
  expect(view.status).toBe(200);
  expect(await view.text()).toContain("result.json");
});

test("an export and a check against code have the values of large results", async () => {
  const text = "x".repeat(300_000);
  await using server = await withLarge(text, { runs: [] });
  const { id } = await startJob(server.service);
  await until(server.service, id, ["awaiting"]);

  const exported: unknown[] = [];
  for await (const line of await server.service.get(RUNNER).export(id))
    if (line.type === "entry") exported.push(line.entry);
  const [open] = (await (await server.request("/utils/open-jobs")).text()).split("\n").filter(Boolean);

  for (const entries of [exported, (JSON.parse(open!) as { log: unknown[] }).log]) {
    const large = (entries as { name?: string }[]).find(({ name }) => name === "large");
    expect(large).toMatchObject({ result: { text, list: [1, 2, 3] } });
    expect(large).not.toHaveProperty("by_reference");
  }
});

test("a fork has the large results of the original, also once that is removed", async () => {
  const runs: string[] = [];
  const text = "x".repeat(300_000);
  await using server = await withLarge(text, { runs });
  const { id } = await startJob(server.service);
  await until(server.service, id, ["awaiting"]);

  const fork = await server.service.get(RUNNER).fork(id, { from: "next" });
  await until(server.service, fork.id, ["awaiting"]);
  await server.request(`/admin/api/jobs/${id}?permanent=true`, { method: "DELETE" });
  const store = server.service.get(STORE);
  await expect.poll(() => store.table("Job").get(id)).toBe(undefined);
  await answer(server, fork.id);
  const job = await until(server.service, fork.id);

  expect(job.result).toMatchObject({ next: 300_000, isSame: true });
  expect(runs.toSorted()).toEqual(["large", "next", "next", "same", "small"]);
  const links = await store.table("JobResult").list();
  expect(links.items.map(({ job_id }) => job_id)).toEqual([fork.id]);
  expect((await store.table("JobFile").list()).items).toEqual([]);
  expect((await store.table("FileTotal").list()).items).toEqual([]);
});

test("a large result goes with its job, and leaves nothing", async () => {
  await using server = await withLarge("x".repeat(300_000), { runs: [] });
  const { id } = await startJob(server.service);
  await until(server.service, id, ["awaiting"]);
  const store = server.service.get(STORE);
  expect((await store.table("FileContent").list()).items).toHaveLength(1);

  await server.request(`/admin/api/jobs/${id}/stop`, { method: "POST" });
  await until(server.service, id);
  await server.request(`/admin/api/jobs/${id}?permanent=true`, { method: "DELETE" });

  await expect.poll(async () => (await store.table("FileContent").list()).items).toEqual([]);
  expect((await store.table("JobResult").list()).items).toEqual([]);
  expect((await store.table("FileRemoval").list()).items).toHaveLength(1);
});

test("secrets are taken out of a large result before it is stored", async () => {
  const secret = "k".repeat(40);
  await using server = await withLarge(`${"a".repeat(300_000)}${secret}`, { runs: [] }, { apiKey: secret });
  const { id } = await startJob(server.service);
  await until(server.service, id, ["awaiting"]);

  const { contents } = server.service.get(STORE);
  for (const key of await contents!.getKeys("svc-files")) {
    const text = Buffer.from((await contents!.getItemRaw(key)) as Uint8Array).toString();
    expect(text).toContain("aaa[secret]");
    expect(text).not.toContain("kk");
  }
});

test("a job whose large result is lost ends and says so; once that is restored, it is retried to its end", async () => {
  const runs: string[] = [];
  const text = "x".repeat(300_000);
  await using first = await withLarge(text, { runs }, { shutdownGrace: 0 });
  await startJob(first.service, { id: "job-1" });
  await until(first.service, "job-1", ["awaiting"]);
  const { contents } = first.service.get(STORE);
  const [key] = await contents!.getKeys("svc-files");
  const bytes = (await contents!.getItemRaw(key!)) as Uint8Array;
  await contents!.removeItem(key!);
  await first.service.close();

  await using second = await withLarge(text, { runs }, { dataDir: first.dataDir });
  const lost = await until(second.service, "job-1", ["failed"]);
  await second.service.get(STORE).contents!.setItemRaw(key!, bytes);
  await second.service.get(RUNNER).retry("job-1", "last_step");
  await answer(second, "job-1");
  const job = await until(second.service, "job-1");

  expect(lost.error).toMatch(/step "(large|same)".*missing or damaged: restore it from a backup/);
  expect(job.result).toMatchObject({ next: 300_000, isSame: true });
  expect(runs.toSorted()).toEqual(["large", "next", "same", "small"]);
});

test("results up to 256 KiB are in the record", async () => {
  const text = "x".repeat(260_000);
  await using server = await withLarge(text, { runs: [] });
  const { id } = await startJob(server.service);
  await until(server.service, id, ["awaiting"]);

  const calls = (await server.service.get(JOBS).log(id)).map(({ entry }) => entry);
  expect(calls.find((entry) => entry.type === "call" && entry.name === "large")).toMatchObject({
    result: { text },
  });
  expect((await server.service.get(STORE).table("FileContent").list()).items).toEqual([]);
});

test("a case shows the start of a long result, and no part of a secret", async () => {
  const secret = "k".repeat(40);
  const long = `${"a".repeat(980)}${secret}${"b".repeat(20_000)}`;
  const agent = agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    await item.step("short", () => ({ text: "a".repeat(16_000) }));
    await item.step("long", () => long);
  });
  await using server = await testServer({ agents: [agent], apiKey: secret });

  const { id } = await startJob(server.service);
  await until(server.service, id);
  const [short, shortened] = (await server.service.get(CASES).get("a")).updates;

  expect(short?.payload).toEqual({ text: "a".repeat(16_000) });
  expect(shortened?.payload).toMatchObject({ shortened: true, length: 21_022 });
  const beginning = String(shortened?.payload?.beginning);
  expect(beginning).toHaveLength(1000);
  expect(beginning).not.toContain("kk");
});

test("a result over the limit is refused immediately, and says what to do", async () => {
  let ran = 0;
  const agent = agentOf(({ job }) =>
    job.step("huge", () => {
      ran++;
      return ["x".repeat(17 * 1024 * 1024)];
    }),
  );
  await using server = await testServer({ agents: [agent] });

  const { id } = await startJob(server.service);
  const job = await until(server.service, id);

  expect(job.error).toMatch(/The result of step "huge" is longer than 16 MB of JSON.*return its URL/);
  expect(ran).toBe(1);
  expect((await server.service.get(JOBS).log(id)).map(({ entry }) => entry.type)).toContain("call");
});

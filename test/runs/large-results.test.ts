import { CASES, JOBS } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
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
  expect(log.length).toBeGreaterThan(45_000_000);
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

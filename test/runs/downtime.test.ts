import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { JOBS } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
import type { MarkEntry } from "../../src/core/models/run-entry.ts";
import type { Timeline } from "../../src/plugins/admin/views/timeline.ts";
import { agentOf, gate } from "./_agent.ts";
import { startJob, until } from "./_jobs.ts";
import { ServiceProcess } from "./_process.ts";

const sign = (folder: string) => readFile(join(folder, "alive"), "utf8");

test("the time between two processes is shown as downtime with its real length, on the page and in the API", async () => {
  let offset = 0;
  const begun = gate();
  const agent = agentOf(async ({ job }) => {
    await job.step("first", () => 1);
    await job.step("second", async () => {
      begun.open();
      if (offset === 0) await new Promise(() => {});
    });
    return "done";
  });
  const clock = () => new Date(Date.now() + offset);
  const options = { agents: [agent], clock, store: undefined, shutdownGrace: 0 };
  await using first = await testServer(options);
  const { id } = await startJob(first.service);
  await begun.opened;
  await first.service.close();
  const closedAt = await sign(first.dataDir);

  offset = 33_000;
  await using second = await testServer({ ...options, dataDir: first.dataDir });
  await until(second.service, id, ["completed"]);
  const timeline = (await (await second.request(`/admin/api/jobs/${id}/timeline`)).json()) as Timeline;
  const [page, history] = await Promise.all(
    ["", "?tab=history"].map(async (tab) => (await second.request(`/admin/jobs/${id}${tab}`)).text()),
  );

  const gaps = timeline.rows[0]!.spans.filter(({ kind }) => kind === "interrupted");
  const work = timeline.rows[0]!.spans.filter(({ kind }) => kind === "work");
  expect(gaps.map(({ from }) => new Date(from).toISOString())).toEqual([closedAt]);
  expect(timeline.downtime).toBe(gaps[0]!.to - gaps[0]!.from);
  expect(timeline.downtime).toBeGreaterThanOrEqual(33_000);
  expect(work.reduce((sum, { from, to }) => sum + to - from, 0)).toBe(
    timeline.rows[0]!.to - work[0]!.from - timeline.downtime,
  );
  expect(page).toMatch(/, down for (3\d|4\d|5\d) s/);
  expect(history).toMatch(/Down for [345]\d s: resumed after step &(quot|#34);first/);
});

test.each([
  ["no sign of life", undefined],
  ["a sign that is no time", "garbage"],
  ["a sign of tomorrow", new Date(Date.now() + 86_400_000).toISOString()],
] as const)(
  "with %s a service starts, and downtime starts at the last entry, or at the start",
  async (_what, text) => {
    const begun = gate();
    let isFirst = true;
    const agent = agentOf(({ job }) =>
      job.step("one", async () => {
        begun.open();
        if (isFirst) await new Promise(() => {});
      }),
    );
    const options = { agents: [agent], store: undefined, shutdownGrace: 0 };
    await using first = await testServer(options);
    const { id } = await startJob(first.service);
    await begun.opened;
    await first.service.close();
    isFirst = false;
    const path = join(first.dataDir, "alive");
    if (text === undefined) await rm(path);
    else await writeFile(path, text);

    await using second = await testServer({ ...options, dataDir: first.dataDir });
    await until(second.service, id, ["completed"]);
    const log = await second.service.get(JOBS).log(id);
    const at = log.findIndex(({ entry }) => entry.type === "mark" && entry.mark === "interrupted");
    const { since, at: toldAt } = log[at]!.entry as MarkEntry;

    const isTomorrow = text !== undefined && text !== "garbage";
    expect(since).toBe(isTomorrow ? toldAt : log[at - 1]!.entry.at);
  },
);

test("after a kill, downtime starts at the last sign of life, even if the agent came back later than the service", async () => {
  const service = await ServiceProcess.start();
  await service.startJob("counter", "j", { count: 3, pause: 2 });
  await expect.poll(() => service.did()).toContain("step 2 attempt 1");
  const first = await sign(join(service.folder, "data"));
  // The sign of life continues while nothing is stored.
  await expect.poll(() => sign(join(service.folder, "data"))).not.toBe(first);
  await service.kill();
  const last = await sign(join(service.folder, "data"));
  await service.start({ WITHOUT: "Counter" });
  await service.end();
  await service.start();
  await expect.poll(() => service.did()).toContain("step 2 attempt 2");
  const shown = await service.send("/admin/api/jobs/j/timeline");
  const { rows, interruptions } = (await shown.json()) as Timeline;
  await service.kill();

  const gap = rows[0]!.spans.find(({ kind }) => kind === "interrupted");
  expect([interruptions, new Date(gap!.from).toISOString()]).toEqual([1, last]);
});

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CASES, JOBS, RUNNER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
import { repairStore } from "../../src/core/store/maintenance.ts";
import { agentOf } from "./_agent.ts";
import { startJob, until } from "./_jobs.ts";

test("a job that lost data in a repair is not resumed: it fails with the reason, and continues when a person retries it", async () => {
  let runs = 0;
  let isDone = false;
  const agent = agentOf(async ({ job, signal }) => {
    runs++;
    const value = await job.step("first", () => "recorded value");
    const item = await job.openCase({ id: `${job.id}-case`, name: "Case" });
    if (!isDone)
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    await item.close();
    return value;
  });
  await using first = await testServer({ agents: [agent], store: undefined });
  const cases = async () => (await first.service.get(CASES).list({})).total;
  // One after another, so that their lines do not mix.
  await startJob(first.service, { id: "sound" });
  await expect.poll(cases).toBe(1);
  await startJob(first.service, { id: "hurt" });
  await expect.poll(cases).toBe(2);
  await first.service.close();
  const name = readdirSync(first.dataDir).find((one) => one.startsWith("journal."))!;
  const file = join(first.dataDir, name);
  const bytes = readFileSync(file);
  const line = bytes
    .toString("latin1")
    .split("\n")
    .find((one) => one.includes('"id":"hurt"') && one.includes("recorded value"))!;
  const at = bytes.indexOf(Buffer.from(line, "latin1")) + line.indexOf("recorded");
  bytes[at] = bytes[at]! ^ 1;
  writeFileSync(file, bytes);

  expect((await repairStore(first.dataDir)).held).toEqual(["hurt"]);

  isDone = true;
  const before = runs;
  await using second = await testServer({ agents: [agent], store: undefined, dataDir: first.dataDir });
  await until(second.service, "sound");
  const { service } = second;
  expect(runs - before).toBe(1);
  expect(await service.get(JOBS).get("hurt")).toMatchObject({
    status: "failed",
    stop_reason: "damaged",
    error: expect.stringMatching(/^Data of this job was lost .*Run "hurt" has \d+ entries left/),
  });
  expect((await service.get(CASES).get("hurt-case")).status).toBe("failed");
  expect(await service.get(JOBS).damaged()).toEqual([]);

  await service.get(RUNNER).retry("hurt", "start");

  expect(await until(service, "hurt")).toMatchObject({
    status: "completed",
    result: "recorded value",
    stop_reason: null,
  });
});

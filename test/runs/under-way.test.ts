import { writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { RUNNER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, onTestFinished, test, vi } from "vitest";
import { openUnderWay } from "../../src/core/runs/cluster/under-way.ts";
import { agentOf, gate } from "./_agent.ts";
import { startJob, until } from "./_jobs.ts";

async function notes(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "under-way-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return join(folder, "under-way");
}

const leftovers = (path: string) =>
  [...openUnderWay(path).leftovers().values()].map(({ job, doing }) => ({ job, doing }));

test("a job is found in a slot that had a longer note before", async () => {
  const path = await notes();
  const before = openUnderWay(path);
  before.began("the first job, with a long id");
  before.doing("the first job, with a long id", 'step "a step with a long name"');
  before.rested("the first job, with a long id");
  before.began("second");
  before.flush();

  expect(leftovers(path)).toEqual([{ job: "second", doing: undefined }]);
});

test("a job that has rested is not found, whatever its slot had before", async () => {
  const path = await notes();
  const before = openUnderWay(path);
  before.began("first");
  before.flush();
  before.rested("first");

  expect(leftovers(path)).toEqual([]);
});

test("the notes of an earlier version, filled up to the end of their slots, are read", async () => {
  const path = await notes();
  const note = (job: string) => `${JSON.stringify({ job, doing: "step é" })}`;
  const filled = (text: string) => text.padEnd(1023 - (Buffer.byteLength(text) - text.length)).concat("\n");
  writeFileSync(path, filled(note("one")) + filled(note("two")));

  expect(leftovers(path)).toEqual([
    { job: "one", doing: "step é" },
    { job: "two", doing: "step é" },
  ]);
});

test("a job that is over is not found once another one has its slot, or after a second", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const path = await notes();
  const before = openUnderWay(path);
  before.began("first");
  before.flush();
  before.left("first");
  before.began("second");
  before.flush();
  expect(leftovers(path).map(({ job }) => job)).toEqual(["second"]);

  before.left("second");
  vi.advanceTimersByTime(1000);

  expect(leftovers(path)).toEqual([]);
});

test("a job that begins again while its slot is not cleared has one slot", async () => {
  const path = await notes();
  const before = openUnderWay(path);
  before.began("other");
  before.left("other");
  before.began("first");
  before.left("first");
  before.began("first");
  before.flush();
  before.rested("first");

  expect(leftovers(path)).toEqual([]);
});

test("an end in order clears what is over, beside a leftover that is not settled", async () => {
  const path = await notes();
  const crashed = openUnderWay(path);
  crashed.began("crashed");
  crashed.flush();
  const next = openUnderWay(path);
  next.began("over");
  next.flush();
  next.left("over");
  next.end();

  expect(leftovers(path).map(({ job }) => job)).toEqual(["crashed"]);
});

test("jobs that begin together are found, wherever their slots are, and what is between them stays", async () => {
  const path = await notes();
  const crashed = openUnderWay(path);
  const ids = Array.from({ length: 12 }, (_, n) => `crashed-${n}`);
  for (const id of ids) crashed.began(id);
  crashed.flush();
  const next = openUnderWay(path);
  for (const at of [1, 2, 4, 9]) next.settle(ids[at]!);
  const begun = ["one", "two", "three", "four", "five"];
  for (const id of begun) next.began(id);
  next.flush();

  const left = ids.filter((_, n) => ![1, 2, 4, 9].includes(n));
  expect(new Set(leftovers(path).map(({ job }) => job))).toEqual(new Set([...left, ...begun]));
});

test("what does not fit into a slot leaves its neighbor as it is", async () => {
  const path = await notes();
  const before = openUnderWay(path);
  before.began("first");
  before.began("second");
  before.flush();
  before.rested("first");
  before.began("x".repeat(2000));
  before.flush();

  expect(leftovers(path).map(({ job }) => job)).toEqual(["second"]);
});

test("the file names a job before its code runs, at its start and after a wait, and not while it waits", async () => {
  const path = await notes();
  const seen: string[][] = [];
  const look = () => void seen.push(leftovers(path).map(({ job }) => job));
  const waits = gate();
  const agent = agentOf(async ({ job }) => {
    look();
    const item = await job.openCase({ id: "q", name: "Question" });
    const asked = item.ask({ question: "Which?", fields: [{ name: "text", required: true }] });
    waits.open();
    await asked;
    await job.step("after", look);
  });
  await using server = await testServer({ agents: [agent], store: undefined, dataDir: dirname(path) });
  await startJob(server.service, { id: "job-1" });
  await waits.opened;
  await expect.poll(() => leftovers(path)).toEqual([]);
  await server.service.get(RUNNER).answer("job-1", "q", { answer: { text: "this" }, message: null });

  expect(await until(server.service, "job-1")).toMatchObject({ status: "completed" });
  expect(seen).toEqual([["job-1"], ["job-1"]]);
});

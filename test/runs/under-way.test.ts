import { writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { openUnderWay } from "../../src/core/runs/cluster/under-way.ts";

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

  expect(leftovers(path)).toEqual([{ job: "second", doing: undefined }]);
});

test("a job that has rested is not found, whatever its slot had before", async () => {
  const path = await notes();
  const before = openUnderWay(path);
  before.began("first");
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
  before.left("first");
  before.began("second");
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
  before.rested("first");

  expect(leftovers(path)).toEqual([]);
});

test("an end in order clears what is over, beside a leftover that is not settled", async () => {
  const path = await notes();
  openUnderWay(path).began("crashed");
  const next = openUnderWay(path);
  next.began("over");
  next.left("over");
  next.end();

  expect(leftovers(path).map(({ job }) => job)).toEqual(["crashed"]);
});

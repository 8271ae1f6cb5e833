// @alone
import { setImmediate } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { makeCase, makeJob } from "../../src/core/store/contract/fixtures.ts";
import { MOST_OF_SLICE } from "../../src/core/store/engine/index-slice.ts";
import { TableIndex } from "../../src/core/store/engine/table-index.ts";
import type { Entity, TableSpec } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";

/** With 100,000 jobs and 300,000 cases, that is 96 MB besides what the process has anyway. */
const MOST_BYTES = 240;
const JOBS = 10_000;
const CASES = 30_000;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** Bytes of what is held; the memory of buffers is freed some turns after they were collected. */
async function used(): Promise<number> {
  for (let turn = 0; turn < 5; turn++) {
    collect();
    await setImmediate();
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

/** An index as a start loads it from a checkpoint. */
function load(name: string, count: number, entity: (number: number) => Entity): TableIndex {
  const spec = CORE_TABLES.find((one) => one.name === name) as TableSpec;
  const source = new TableIndex(spec);
  for (let at = 0; at < count; at++) {
    const one = entity(at);
    source.insert(one.id, { values: spec.index(one), text: spec.text?.(one) ?? "" });
  }
  for (const field of spec.sorted) source.order(field);
  const loaded = new TableIndex(spec);
  loaded.reserve(count);
  for (let from = 0; from < count; from += MOST_OF_SLICE) {
    const slots = Uint32Array.from({ length: Math.min(MOST_OF_SLICE, count - from) }, (_, at) => from + at);
    loaded.load(source.sliceOf(slots));
  }
  for (const { field, slots } of source.orders()) loaded.loadOrder(field, slots);
  return loaded;
}

test("an index that a start has loaded keeps few bytes of each entity", async () => {
  // What is compiled, and made once, is not counted.
  load("Job", 100, (at) => makeJob(`first-${at}`));
  const before = await used();
  const jobs = load("Job", JOBS, (at) =>
    makeJob(`job-${at}`, { name: `Invoice ${at} of audit ${at % 1000}` }),
  );
  const cases = load("Case", CASES, (at) =>
    makeCase(`case-${at}`, `job-${Math.floor(at / 3)}`, {
      ...{ ref: `${at % 3}`, name: `Invoice ${at}`, description: "One of the invoices of an audit" },
    }),
  );
  const bytes = ((await used()) - before) / (JOBS + CASES);

  expect(jobs.size + cases.size).toBe(JOBS + CASES);
  expect(bytes).toBeLessThan(MOST_BYTES);
});

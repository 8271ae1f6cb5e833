// A store with one job; measures lists of it once others were added.

import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { postgres } from "../../src/postgres.ts";
import { job } from "../store/entities.mjs";

const log = { info() {}, warn() {}, error() {} };
const store = await postgres({ url: process.argv[2] })({ tables: CORE_TABLES, dataDir: "", log });
const first = { ...job(1), id: "first", name: "The first" };
await store.table("Job").insert(first);

process.on("message", async (message) => {
  if (message === "measure") process.send(await measure());
  else {
    await store.close();
    process.exit(0);
  }
});
process.send("ready");

async function measure() {
  const jobs = store.table("Job");
  const statuses = ["completed", "failed", "in_progress", "awaiting"];
  let round = 0;
  return {
    status: await median((at) => jobs.list({ where: { status: statuses[at % 4] }, skip: (at % 5) * 50 })),
    text: await median((at) => jobs.list({ search: `audit ${1000 + at}` })),
    word: await median(() => jobs.list({ search: "invoice" }), 10),
    name: await median(() => jobs.list({ sort: "name" })),
    deep: await median(() => jobs.list({ skip: 900_000 }), 10),
    counts: await median(() => jobs.countBy("status")),
    update: await median((at) =>
      jobs.change(`job-${String(1 + at * 997).padStart(8, "0")}`, (one) => ({ ...one, total_cost: ++round })),
    ),
  };
}

/** Milliseconds. */
async function median(work, times = 100) {
  const took = [];
  for (let at = 0; at < times; at++) {
    const began = performance.now();
    await work(at);
    took.push(performance.now() - began);
  }
  return took.sort((a, b) => a - b)[times / 2];
}

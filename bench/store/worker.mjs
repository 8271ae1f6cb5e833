/**
 * One measurement in a separate process, on the sources in one file, as in production. Prints one line of JSON.
 * Plain JavaScript, so that no loader is between Node and what is measured.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { nodeIo } from "../../src/core/storage/node-io.ts";
import { openJsonStoreWith } from "../../src/core/store/json/json-store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { caseOf, job } from "./entities.mjs";
import { lowdbUpdates, rawAppends, sqliteUpdates, wholeFileUpdates } from "./peers.mjs";

const [command, folder, ...numbers] = process.argv.slice(2);
const RUNNING = ["completed", "failed", "in_progress", "awaiting"];
const log = { info() {}, warn: console.error, error: console.error };
/** Of which each update takes the next one. */
const TIMES = Array.from({ length: 500_000 }, (_, at) => new Date(Date.UTC(2026, 6) + at).toISOString());
let clock = 0;
/** Syncs of files so far: what was written between two of them became durable together. */
let syncs = 0;
const io = {
  ...nodeIo,
  sync(...args) {
    syncs++;
    return nodeIo.sync(...args);
  },
  writeSynced(...args) {
    syncs++;
    return nodeIo.writeSynced(...args);
  },
};
const open = (name) => openJsonStoreWith({ tables: CORE_TABLES, dataDir: join(folder, name), log, io });

const COMMANDS = { peers, start, idle };
if (command === "serve") await serve(...numbers.map(Number));
else console.log(JSON.stringify(await COMMANDS[command](...numbers.map(Number))));

/** Fills a store and then measures what is requested, until it is asked to end. */
async function serve(jobs) {
  const store = await open(String(jobs));
  const began = performance.now();
  await fill(store, jobs);
  const insertsPerSecond = (jobs * 4) / ((performance.now() - began) / 1000);
  // Before compactions: they release memory, and the difference would be meaningless.
  const bytes = await bytesOfUpdate(store, jobs);
  const measures = {
    update: (options) => update(store, jobs, options),
    raw: (options) => rawAppends(join(folder, "raw"), { bytes, ...options }),
    lists: () => lists(store),
    end: () => store.close(),
  };
  process.on("message", async ({ measure, options }) => {
    process.send((await measures[measure](options)) ?? {});
    if (measure === "end") process.disconnect();
  });
  process.send({ insertsPerSecond, bytes });
}

/** The same updates on what others use, at one number of jobs. */
async function peers(count, seconds) {
  const store = await open("peers");
  await fill(store, count, 0);
  const rounds = [];
  const jobs = Array.from({ length: count }, (_, number) => job(number));
  mkdirSync(join(folder, "others"), { recursive: true });
  for (let round = 0; round < 3; round++) {
    const { perSecond } = await update(store, count, { callers: 1, seconds });
    const own = { json: perSecond };
    own.sqlite = await sqliteUpdates(join(folder, "others", `${round}.db`), jobs, seconds);
    own.lowdb = await lowdbUpdates(join(folder, "others", "lowdb.json"), jobs, seconds);
    own.wholeFile = await wholeFileUpdates(join(folder, "others", "whole.json"), jobs, seconds);
    rounds.push(own);
  }
  await store.close();
  return { rounds };
}

/** Opens a filled store as the first work of a process. */
async function start(jobs) {
  const began = performance.now();
  const store = await open(String(jobs));
  const milliseconds = performance.now() - began;
  const atOnce = process.memoryUsage().rss;
  const { tables } = await store.stats();
  await lists(store);
  const rss = Math.max(atOnce, process.memoryUsage().rss);
  await store.close();
  return { milliseconds, rss, tables };
}

/** An empty store. */
async function idle() {
  const began = performance.now();
  const store = await open("idle");
  const milliseconds = performance.now() - began;
  await store.close();
  return { milliseconds };
}

async function fill(store, jobs, cases = 3) {
  let next = 0;
  const filler = async () => {
    while (next < jobs) {
      const number = next++;
      await store.transaction(async (tx) => {
        await tx.insert("Job", job(number));
        for (let at = 0; at < cases; at++) await tx.insert("Case", caseOf(number, at));
      });
    }
  };
  await Promise.all(Array.from({ length: 64 }, filler));
}

/** Bytes that one of the updates below uses in the journal. */
async function bytesOfUpdate(store, jobs) {
  const before = (await store.stats()).bytes;
  const { updates } = await update(store, jobs, { callers: 64, seconds: 60, most: 1000 });
  return Math.round(((await store.stats()).bytes - before) / updates);
}

/**
 * Changes the status of random jobs out of a thousand that are spread over all: those that run at the time.
 * What differs between a small and a large store is then the store, not how much of it fits into memory.
 */
async function update(store, jobs, { callers, seconds, running = Math.min(jobs, 1000), most = Infinity }) {
  // Created before, like the times: the cost of creating them is not the store's.
  const ids = Array.from({ length: running }, (_, at) => job(at * Math.floor(jobs / running)).id);
  const table = store.table("Job");
  const end = performance.now() + seconds * 1000;
  const began = performance.now();
  const before = syncs;
  let updates = 0;
  let random = 1;
  const caller = async () => {
    while (updates < most && performance.now() < end) {
      random = (Math.imul(random, 1_103_515_245) + 12_345) & 0x7fffffff;
      const status = RUNNING[updates % 4];
      const updated_at = TIMES[clock++ % TIMES.length];
      await table.change(ids[random % running], (current) => ({ ...current, status, updated_at }));
      updates++;
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  const perSecond = updates / ((performance.now() - began) / 1000);
  return { updates, perSecond, group: updates / (syncs - before) };
}

async function lists(store) {
  const jobs = store.table("Job");
  const queries = {
    status: (at) => ({
      where: { status: RUNNING[at % 4] },
      skip: (at % 5) * 50,
    }),
    search: (at) => ({ search: `audit ${at % 1000}` }),
    name: () => ({ sort: "name" }),
    deep: () => ({ skip: 90_000 }),
    jobCases: (at) => ({ where: { job_id: `job-${String(at * 331).padStart(8, "0")}` } }),
  };
  const medians = {};
  for (const [name, query] of Object.entries(queries)) {
    const table = name === "jobCases" ? store.table("Case") : jobs;
    const times = [];
    for (let at = 0; at < 100; at++) {
      const began = performance.now();
      await table.list({ limit: 50, ...query(at) });
      times.push(performance.now() - began);
    }
    times.sort((a, b) => a - b);
    medians[name] = { median: times[50], p99: times[98] };
  }
  return medians;
}

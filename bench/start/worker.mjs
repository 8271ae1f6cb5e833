/**
 * One measurement in a separate process, on the sources in one file, as in production. Prints one line of JSON.
 * Plain JavaScript, so that no loader is between Node and what is measured.
 */
import { openJsonStore } from "../../src/core/store/json/json-store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { caseOf, job } from "../store/entities.mjs";

const [command, dataDir, ...numbers] = process.argv.slice(2);
const log = { info() {}, warn: console.error, error: console.error };
const COMMANDS = { fill, settle, start };
console.log(JSON.stringify(await COMMANDS[command](...numbers.map(Number))));

/** Fills a folder; short bodies make room for more entities. */
async function fill(jobs, isShort) {
  const store = await openJsonStore({ tables: CORE_TABLES, dataDir, log });
  const short = (entity) => (isShort ? { ...entity, payload: null, updates: [] } : entity);
  let next = 0;
  const filler = async () => {
    while (next < jobs) {
      const number = next++;
      await store.transaction(async (tx) => {
        await tx.insert("Job", short(withError(job(number))));
        for (let at = 0; at < 3; at++) await tx.insert("Case", short(caseOf(number, at)));
      });
    }
  };
  await Promise.all(Array.from({ length: 64 }, filler));
  await store.close();
  return {};
}

/** Waits until there is a checkpoint, as a service that runs for a while has one. */
async function settle() {
  const store = await openJsonStore({ tables: CORE_TABLES, dataDir, log });
  while ((await store.stats()).details.checkpoints === 0)
    await new Promise((resolve) => setTimeout(resolve, 100));
  await store.close();
  return {};
}

/** Failed jobs have one of some errors. */
function withError(made) {
  if (made.status !== "failed") return made;
  const number = Number(made.fingerprint);
  const error = ["connect ECONNREFUSED 10.0.0.1:443", "The invoice has no total", "Request timed out"][
    number % 3
  ];
  return { ...made, error: `${error}\nat step ${number}`, stop_reason: "error" };
}

/** Opens a filled store as the first work of a process, then lists. */
async function start(rounds) {
  const before = process.cpuUsage();
  const began = performance.now();
  const store = await openJsonStore({ tables: CORE_TABLES, dataDir, log });
  const milliseconds = performance.now() - began;
  const { user, system } = process.cpuUsage(before);
  const { rss, heapUsed, external, arrayBuffers } = process.memoryUsage();
  const { tables } = await store.stats();
  const lists = await listTimes(store, rounds);
  await store.close();
  const cpu = (user + system) / 1000;
  return { milliseconds, cpu, rss, heapUsed, external, arrayBuffers, tables, lists };
}

async function listTimes(store, rounds) {
  const jobs = store.table("Job");
  const from = (await jobs.list({ limit: 1, skip: 50_000 })).next;
  const queries = {
    deep: () => jobs.list({ limit: 50, after: from }),
    status: () => jobs.list({ limit: 50, where: { status: "failed", agent_name: "agent-3" } }),
    search: (at) => jobs.list({ limit: 50, search: `audit ${at % 1000}` }),
    common: () => jobs.list({ limit: 50, search: "audit" }),
    rare: (at) => jobs.list({ limit: 50, search: `no such text ${at}` }),
    error: () => jobs.list({ limit: 50, where: { status: "failed" }, search: "econnrefused" }),
    failures: () => jobs.countBy("failure", { where: { status: "failed" } }),
    cases: (at) => store.table("Case").list({ limit: 50, search: `invoice ${at % 1000}-1` }),
  };
  const medians = {};
  for (const [name, query] of Object.entries(queries)) {
    const times = [];
    for (let at = 0; at < rounds; at++) {
      const began = performance.now();
      await query(at);
      times.push(performance.now() - began);
    }
    medians[name] = times.sort((a, b) => a - b)[Math.floor(rounds / 2)];
  }
  return medians;
}

// The service under measure: jobs of one step and one case, kept for some seconds, started without a pause.
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { RUNNER, STORE } from "../../dist/plugin.js";
import { makeService, readMemory, startJobs, tell } from "../measured/service.mjs";
import { worker } from "./worker.mjs";

const [dataDir, count, seconds] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const CALLERS = 16;
const QUARTERS = 4;

const service = makeService({
  agents: [worker],
  dataDir,
  maxConcurrentJobs: CALLERS,
  retention: { completed: seconds },
});
await service.ready();
const [runner, store] = [service.get(RUNNER), service.get(STORE)];

let started = 0;
const each = async (id, number) => {
  started = number;
  const { status } = await runner.ended(id, 60_000);
  if (status !== "completed") throw new Error(`${id} is ${status}`);
};

/** Bytes of the heap that are in use, of the whole process, and of the folder; jobs that are stored. */
const look = async () => {
  const memory = readMemory();
  let disk = 0;
  for (const file of readdirSync(dataDir))
    disk += statSync(join(dataDir, file), { throwIfNoEntry: false })?.size ?? 0;
  return { ...memory, disk, jobs: (await store.stats()).tables.Job };
};

const samples = [];
const timer = setInterval(async () => {
  const quarter = Math.min(QUARTERS - 1, Math.floor((started / count) * QUARTERS));
  samples.push({ quarter, ...(await look()) });
}, 1000);
const begun = performance.now();
await startJobs(service, { agent: "worker", count, callers: CALLERS, each });
const took = (performance.now() - begun) / 1000;
clearInterval(timer);

const mean = (quarter, of) => {
  const some = samples.filter((sample) => sample.quarter === quarter).map(of);
  return some.reduce((sum, value) => sum + value, 0) / some.length;
};
const quarters = Array.from({ length: QUARTERS }, (_, quarter) => ({
  heap: mean(quarter, ({ heap }) => heap),
  rss: mean(quarter, ({ rss }) => rss),
  disk: mean(quarter, ({ disk }) => disk),
  jobs: mean(quarter, ({ jobs }) => jobs),
}));
tell(service, { quarters, rate: count / took, removed: count - (await store.stats()).tables.Job });

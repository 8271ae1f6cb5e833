// The service under measure: jobs of one step and one case, kept for some seconds, started without a pause.
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { createServer, defineAgent } from "../../dist/index.js";
import { RETENTION, RUNNER, STORE } from "../../dist/plugin.js";

const [dataDir, count, seconds] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const CALLERS = 16;
const QUARTERS = 4;

const worker = defineAgent({
  name: "Worker",
  version: "1.0.0",
  methods: {
    job_start: {
      run: async ({ job }) => {
        const item = await job.openCase({ id: `${job.id}-case`, name: "Case" });
        const text = await item.step("work", () => "what a step gives ".repeat(20));
        await item.close({ text });
        return { message: text };
      },
    },
  },
});
const service = createServer({
  agents: [worker],
  dataDir,
  port: 0,
  apiKey: "key-of-this-benchmark",
  logTo: () => {},
  maxConcurrentJobs: CALLERS,
  retention: { completed: seconds },
});
await service.ready();
const [runner, store, retention] = [service.get(RUNNER), service.get(STORE), service.get(RETENTION)];

let started = 0;
const startJobs = async () => {
  while (started < count) {
    const id = `job-${++started}`;
    const job_context = {
      ...{ workspace_id: "w", job_id: id, started_by: "bench", started_at: new Date().toISOString() },
      ...{ mission_id: "m", mission_name: "Mission", mission_context: null, job_instructions: null },
    };
    await runner.start("worker", { job_context, job_fields: {} });
    const { status } = await runner.ended(id, 60_000);
    if (status !== "completed") throw new Error(`${id} is ${status}`);
  }
};

/** Bytes of the heap that are in use, of the whole process, and of the folder; jobs that are stored. */
const look = async () => {
  globalThis.gc();
  const { heapUsed, arrayBuffers, rss } = process.memoryUsage();
  let disk = 0;
  for (const file of readdirSync(dataDir))
    disk += statSync(join(dataDir, file), { throwIfNoEntry: false })?.size ?? 0;
  return { heap: heapUsed + arrayBuffers, rss, disk, jobs: (await store.stats()).tables.Job };
};

const samples = [];
const timer = setInterval(async () => {
  const quarter = Math.min(QUARTERS - 1, Math.floor((started / count) * QUARTERS));
  samples.push({ quarter, ...(await look()) });
}, 1000);
const begun = performance.now();
await Promise.all(Array.from({ length: CALLERS }, startJobs));
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
process.send({ quarters, rate: count / took, removed: (await retention.state())?.jobs ?? 0 });
await service.close();
process.exit(0);

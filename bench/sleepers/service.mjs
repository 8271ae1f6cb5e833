// The service under measure: starts jobs that sleep for days, or starts with those that a folder has.
import { createServer, defineAgent } from "../../dist/index.js";
import { RUNNER, STORE } from "../../dist/plugin.js";

const [dataDir, count, suspends] = [process.argv[2], Number(process.argv[3]), process.argv[4] === "suspend"];
const CALLERS = 64;

const sleeper = defineAgent({
  name: "Sleeper",
  version: "1.0.0",
  methods: {
    job_start: {
      run: async ({ job }) => {
        const text = await job.step("work", () => "what a step returns ".repeat(5));
        await job.sleep(`${1 + (Number(job.id.slice(4)) % 30)}d`);
        return text;
      },
    },
  },
});
const service = createServer({
  agents: [sleeper],
  dataDir,
  port: 0,
  apiKey: "key-of-this-benchmark",
  logTo: () => {},
  maxConcurrentJobs: CALLERS,
  maxQueuedJobs: 10 ** 9,
  suspendAfter: suspends ? 0 : false,
});

const begun = performance.now();
await service.ready();
const runner = service.get(RUNNER);
const isBusy = () => runner.load().running + runner.load().queued > 0;
const ready = performance.now() - begun;
// Without suspension, jobs are replayed behind the start.
while (isBusy()) await new Promise((resolve) => setTimeout(resolve, 10));
const quiet = performance.now() - begun;
const { reads } = await service.get(STORE).stats();

let started = 0;
const startJobs = async () => {
  while (started < count) {
    const id = `job-${++started}`;
    const job_context = {
      ...{ workspace_id: "w", job_id: id, started_by: "bench", started_at: new Date().toISOString() },
      ...{ mission_id: "m", mission_name: "Mission", mission_context: null, job_instructions: null },
    };
    await runner.start("sleeper", { job_context, job_fields: {} });
  }
};
await Promise.all(Array.from({ length: CALLERS }, startJobs));
while (isBusy()) await new Promise((resolve) => setTimeout(resolve, 10));
const suspended = async () =>
  (
    await service
      .get(STORE)
      .table("Job")
      .ids({ where: { status: "in_progress", wake_at: { gte: 0 } } })
  ).length;
while (suspends && count > 0 && (await suspended()) < count)
  await new Promise((resolve) => setTimeout(resolve, 50));

globalThis.gc();
const { heapUsed, arrayBuffers } = process.memoryUsage();
process.send({ ready, quiet, reads, heap: heapUsed + arrayBuffers, suspended: await suspended() });
process.on("message", async () => {
  await service.close();
  process.exit(0);
});

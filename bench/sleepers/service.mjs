// The service under measure: starts jobs that sleep for days and jobs that complete, or starts with those that a folder has.
import { defineAgent } from "../../dist/index.js";
import { RUNNER, STORE } from "../../dist/plugin.js";
import { makeService, readMemory, startJobs, tell } from "../measured/service.mjs";

const [dataDir, mode] = [process.argv[2], process.argv[5]];
const [asleep, done] = [Number(process.argv[3]), Number(process.argv[4])];
const suspends = mode === "suspend";
const CALLERS = 64;

const define = (name, end) =>
  defineAgent({
    name,
    version: "1.0.0",
    methods: {
      job_start: {
        run: async ({ job }) => {
          const text = await job.step("work", () => "what a step returns ".repeat(5));
          await end(job);
          return text;
        },
      },
    },
  });
const sleeper = define("Sleeper", (job) => job.sleep(`${1 + (Number(job.id.slice(4)) % 30)}d`));
const worker = define("Worker", () => {});
const service = makeService({
  agents: [sleeper, worker],
  dataDir,
  maxConcurrentJobs: CALLERS,
  maxQueuedJobs: 10 ** 9,
  suspendAfter: suspends ? 0 : false,
});
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

const begun = performance.now();
await service.ready();
const runner = service.get(RUNNER);
const isBusy = () => runner.load().running + runner.load().queued > 0;
const ready = performance.now() - begun;
// Without suspension, jobs are replayed behind the start.
while (isBusy()) await pause(10);
const quiet = performance.now() - begun;
const { reads } = await service.get(STORE).stats();

const count = async (where) => (await service.get(STORE).table("Job").ids({ where })).length;
const suspended = () => count({ status: "in_progress", wake_at: { gte: 0 } });
const startedAt = performance.now();
await startJobs(service, { agent: "sleeper", count: asleep, callers: CALLERS });
while (isBusy()) await pause(10);
while (suspends && asleep > 0 && (await suspended()) < asleep) await pause(50);
const sleepingAt = performance.now();
await startJobs(service, { agent: "worker", count: done, callers: CALLERS, prefix: "done" });
while (isBusy()) await pause(10);
const doneAt = performance.now();

tell(service, {
  ...{ ready, quiet, reads, ...readMemory() },
  suspended: await suspended(),
  completed: await count({ status: "completed" }),
  untilAsleep: sleepingAt - startedAt,
  untilDone: doneAt - sleepingAt,
});

// The service under measure: a job of three durable steps, one of many, and one that replays many.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer, defineAgent } from "../../dist/index.js";
import { RUNNER } from "../../dist/plugin.js";

const dataDir = process.argv[2] ?? mkdtempSync(join(tmpdir(), "bench-runs-"));
const apiKey = "key-of-this-benchmark";
const reached = { at: 0 };
const agent = (name, run) =>
  defineAgent({
    name,
    version: "1.0.0",
    methods: {
      job_start: {
        fields: [
          { name: "n", field_type: "IntegerField", default: 1 },
          { name: "size", field_type: "IntegerField", default: 0 },
        ],
        run,
      },
    },
  });
const three = agent("Three", async ({ job, fields }) => {
  const one = await job.step("one", () => fields.n + 1);
  const two = await job.step("two", () => one * 2);
  const result = await job.step("three", () => two - 1);
  return { result };
});
const many = agent("Many", async ({ job, fields, signal }) => {
  const times = [];
  for (let n = 0; n < fields.n; n++) {
    const from = performance.now();
    await job.step("step", ({ file }) =>
      fields.size === 0 ? { n, text: "what a step gives" } : file(`${n}.txt`, `${n}`.padEnd(fields.size)),
    );
    times.push(performance.now() - from);
  }
  reached.at = performance.now();
  process.send?.({ reached: true, median: times.sort((a, b) => a - b)[times.length >> 1] });
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
});

const service = createServer({
  agents: [three, many],
  apiKey,
  dataDir,
  port: 0,
  logTo: () => {},
  maxConcurrentJobs: 64,
});
const begun = performance.now();
await service.ready();
const ready = performance.now();
await service.listen();

process.on("message", async (message) => {
  if (message === "many")
    process.send({ replay: reached.at === 0 ? undefined : reached.at - begun, ready: ready - begun });
  if (message === "end") {
    await service.get(RUNNER).close(1);
    await service.close();
    if (!process.argv[2]) rmSync(dataDir, { recursive: true, force: true });
    process.exit(0);
  }
});
process.send({ url: service.url, apiKey });

// A service of any build, which says what it has used: processor time, memory, bytes written, syncs, and function calls.

import { pathToFileURL } from "node:url";
import { GCProfiler, getHeapStatistics } from "node:v8";
import { countCalls, takeWrites } from "../../test/cost/_counters.mjs";

const [dist, dataDir, control] = process.argv.slice(2);

const { createServer, defineAgent } = await import(pathToFileURL(`${dist}/index.js`).href);
const three = defineAgent({
  name: "Three",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: [{ name: "n", field_type: "IntegerField", default: 1 }],
      run: async ({ job, fields }) => {
        const one = await job.step("one", () => fields.n + 1);
        const two = await job.step("two", () => one * 2);
        const result = await job.step("three", () => two - 1);
        return { result };
      },
    },
  },
});
const apiKey = "key-of-this-benchmark";
const account = control && { workspace_id: "w", api_key: "key-of-the-account", api_url: control };
const service = createServer({
  ...{ agents: [three], apiKey, dataDir, port: 0, logTo: () => {}, maxConcurrentJobs: 64 },
  ...(account && { account }),
});
await service.listen();

let takeCalls = async () => ({ calls: 0, functions: 0, modules: 0 });
let last = { cpu: process.cpuUsage(), heap: getHeapStatistics().used_heap_size };
let collections = new GCProfiler();
collections.start();

/** Bytes allocated since the last time: what is used more now, and what was freed in between. */
function takeAllocated(heap) {
  const freed = collections
    .stop()
    .statistics.reduce(
      (sum, { beforeGC, afterGC }) =>
        sum + beforeGC.heapStatistics.usedHeapSize - afterGC.heapStatistics.usedHeapSize,
      0,
    );
  collections = new GCProfiler();
  collections.start();
  return heap - last.heap + freed;
}

async function take() {
  const cpu = process.cpuUsage();
  const heap = getHeapStatistics().used_heap_size;
  const used = {
    cpu: cpu.user + cpu.system - last.cpu.user - last.cpu.system,
    allocated: takeAllocated(heap),
    ...takeWrites(),
    ...(await takeCalls()),
  };
  last = { cpu: process.cpuUsage(), heap: getHeapStatistics().used_heap_size };
  return used;
}

process.on("message", async (message) => {
  if (message === "take") process.send(await take());
  if (message === "count") {
    takeCalls = await countCalls(dist);
    process.send(await take());
  }
  if (message === "end") {
    await service.close();
    process.exit(0);
  }
});
process.send({ url: service.url, apiKey });

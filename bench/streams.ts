import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { TestServer } from "../src/test-server.ts";
import { EventReader } from "../test/http/_event-reader.ts";
import type { BenchRow } from "./row.ts";

const STREAMS = Number(process.env.SVC_BENCH_STREAMS ?? 200);
const TOKENS = Number(process.env.SVC_BENCH_TOKENS ?? 200);
/** Milliseconds between two tokens of a step. */
const PAUSE = 50;

/** The built package; named so that the types need no build. */
const BUILT = new URL("../dist/", import.meta.url).href;

/** How fast tokens reach clients, and what many streams cost. */
export async function run(): Promise<BenchRow[]> {
  const { defineAgent } = (await import(`${BUILT}index.js`)) as typeof import("../src/index.ts");
  const { testServer } = (await import(`${BUILT}testing.js`)) as typeof import("../src/testing.ts");
  // Each of its tokens says when it was emitted.
  const talker = defineAgent({
    name: "Talker",
    version: "1.0.0",
    maxConcurrentJobs: STREAMS,
    methods: {
      job_start: {
        run: ({ job }) =>
          job.step("talk", async ({ emit }) => {
            for (let n = 0; n < TOKENS; n++) {
              await new Promise((done) => setTimeout(done, PAUSE * (0.5 + Math.random())));
              emit(`${performance.now()} `);
            }
          }),
      },
    },
  });
  await using server = await testServer({
    agents: [talker],
    maxConcurrentJobs: STREAMS,
    logLevel: "error",
  });
  const alone = await measure(server, 1);
  const many = await measure(server, STREAMS);
  return [
    row("a token reaches its client, one stream", alone.median, "ms", 20),
    row(`a token reaches its client, ${STREAMS} streams`, many.median, "ms", 20),
    row(`the slowest of 20 tokens, ${STREAMS} streams`, many.slow, "ms"),
    row(`heap that ${STREAMS} streams add, from the first tenth to the end`, many.growth, "MB", 20),
  ];
}

function row(name: string, value: number, unit: string, most?: number): BenchRow {
  return { name, value, unit, ...(most !== undefined && { target: `<= ${most}`, ok: value <= most }) };
}

let rounds = 0;

async function measure(server: TestServer, count: number) {
  const round = ++rounds;
  const delays: number[] = [];
  const ids = Array.from({ length: count }, (_, n) => `talk-${round}-${n}`);
  let first = Number.NaN;
  await Promise.all(
    ids.map(async (id) => {
      await server.request("/agents/talker/jobs", { json: { job_context: { job_id: id } } });
      await using reader = new EventReader(await server.request(`/jobs/${id}/stream`));
      for (let event = await reader.next(); event; event = await reader.next()) {
        if (event.event !== "chunk") continue;
        // A late reader gets several together.
        const at = Number((event.data.chunks as string[]).at(-1));
        delays.push(performance.now() - at);
        if (Number.isNaN(first) && delays.length >= (count * TOKENS) / 10) first = heap();
      }
    }),
  );
  const growth = Math.max(0, heap() - first);
  delays.sort((a, b) => a - b);
  const at = (share: number) => delays[Math.floor(delays.length * share)]!;
  return { median: at(0.5), slow: at(0.95), growth };
}

/** Megabytes in use after a collection. */
function heap(): number {
  setFlagsFromString("--expose_gc");
  (runInNewContext("gc") as () => void)();
  return process.memoryUsage().heapUsed / 1e6;
}

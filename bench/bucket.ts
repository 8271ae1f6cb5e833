import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { s3Driver } from "../src/core/storage/s3.ts";
import { defineAgent, type ServerOptions } from "../src/index.ts";
import { testServer } from "../src/test-server.ts";
import { type S3Server, startS3 } from "../test/storage/s3-server.ts";
import type { BenchRow } from "./row.ts";

/** Milliseconds that a request takes on its way there and back. */
const TRIP = 50;
const JOBS = Number(process.env.SVC_BENCH_BUCKET_JOBS ?? 600);
const STEPS = 3;
const TURNS = 40;
/** Dollars for a million requests: list prices of S3 Standard in us-east-1, and of GCS Standard in us-central1, in 2026. */
const PRICES = { S3: { write: 5, read: 0.4 }, GCS: { write: 5, read: 0.4 } } as const;

const worker = defineAgent({
  name: "Worker",
  version: "1.0.0",
  maxConcurrentJobs: 64,
  methods: {
    job_start: {
      async run({ job }) {
        for (let n = 0; n < STEPS; n++) await job.step(`step ${n}`, () => ({ n, text: "x".repeat(200) }));
        return { message: "done" };
      },
    },
  },
});

/** Gives the median time that a step takes until its result is acknowledged, milliseconds. */
const timer = defineAgent({
  name: "Timer",
  version: "1.0.0",
  methods: {
    job_start: {
      async run({ job }) {
        const times: number[] = [];
        for (let n = 0; n < TURNS; n++) {
          const from = performance.now();
          await job.step("turn", () => n);
          times.push(performance.now() - from);
        }
        return { median: times.sort((a, b) => a - b)[TURNS / 2]! };
      },
    },
  },
});

/** What a store in a bucket does and costs, with round trips as those to a bucket in the same region take at most. */
export async function run(): Promise<BenchRow[]> {
  const s3 = await startS3(["bench"]);
  s3.buckets.fault = async (_seen, proceed) => {
    await delay(TRIP);
    return proceed();
  };
  try {
    const rows: BenchRow[] = [];
    for (const clients of [16, 64]) {
      const local = await measure(undefined, clients);
      s3.buckets.seen.length = 0;
      const remote = await measure(storageIn(s3, `clients-${clients}`), clients);
      rows.push(
        {
          ...{
            name: `durable ${STEPS}-step jobs, ${clients} clients, ${TRIP} ms round trips`,
            unit: "jobs/s",
          },
          value: remote.rate,
          baseline: { name: "local disk", value: local.rate },
          ratio: remote.rate / local.rate,
        },
        ...(clients === 64 ? costs(s3) : []),
      );
      if (clients === 16) {
        const trips = remote.step / TRIP;
        const name = "round trips of the median step, one job";
        rows.push({ name, value: trips, unit: "", target: "<= 1.2", ok: trips <= 1.2 });
      }
    }
    return rows;
  } finally {
    await s3.close();
  }
}

function storageIn(s3: S3Server, prefix: string) {
  const env = { AWS_ACCESS_KEY_ID: "AKIDTEST", AWS_SECRET_ACCESS_KEY: "s3-test-secret" };
  return s3Driver({
    ...{ bucket: "bench", endpoint: s3.url, region: s3.region, env, conditional: true, prefix },
  });
}

async function measure(storage: ServerOptions["storage"], clients: number) {
  const dataDir = await mkdtemp(join(tmpdir(), "bench-bucket-"));
  try {
    await using server = await testServer({
      ...{ agents: [worker, timer], dataDir, store: undefined, logLevel: "error", maxConcurrentJobs: 64 },
      ...(storage && { storage }),
    });
    const { result } = await server.run(timer);
    let next = 0;
    const client = async () => {
      while (next < JOBS) {
        next++;
        await server.run(worker);
      }
    };
    const from = performance.now();
    await Promise.all(Array.from({ length: clients }, client));
    return { rate: (JOBS * 1000) / (performance.now() - from), step: (result as { median: number }).median };
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
}

/** What the requests seen since the start cost, for each job; those of the one long job are among them. */
function costs({ buckets: { seen } }: S3Server): BenchRow[] {
  const writes = seen.filter(({ kind }) => kind === "write" || kind === "create" || kind === "list");
  const reads = seen.filter(({ kind }) => kind === "read");
  const bytes = seen.reduce((sum, one) => sum + one.bytes, 0);
  const dollars = Object.entries(PRICES).map(([where, { write, read }]) => ({
    ...{ name: `a million jobs on ${where}, 64 clients`, unit: "$" },
    value: (writes.length * write + reads.length * read) / JOBS,
  }));
  return [
    { name: "requests for a job, 64 clients", value: seen.length / JOBS, unit: "" },
    { name: "bytes for a job, 64 clients", value: bytes / JOBS, unit: "B" },
    ...dollars,
  ];
}

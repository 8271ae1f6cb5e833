import { generateKeyPairSync } from "node:crypto";
import { Agent } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { type S3Server, startS3 } from "../test/storage/s3-server.ts";
import { begin } from "./peers/begin.ts";
import { message } from "./peers/message.ts";
import type { BenchRow } from "./row.ts";
import { load, median, send } from "./runs/load.ts";
import { startOf } from "./runs/start-of.ts";

/** Milliseconds that a request takes on its way there and back. */
const TRIP = 50;
const SECONDS = Number(process.env.SVC_BENCH_SECONDS ?? 12);
const TURNS = 2;
const CLIENTS = [16, 64] as const;
const STEPS = 40;
/** Dollars for a million requests: list prices of S3 Standard in us-east-1, and of GCS Standard in us-central1, in 2026. */
const PRICES = { S3: { write: 5, read: 0.4 }, GCS: { write: 5, read: 0.4 } } as const;

/** What a store in a bucket does and costs, with round trips as those to a bucket in the same region take at most. */
export async function run(): Promise<BenchRow[]> {
  const s3 = await startS3(["bench"]);
  s3.buckets.fault = async (_seen, proceed) => {
    await delay(TRIP);
    return proceed();
  };
  try {
    await using remote = await begin("runs/service.mjs", [], variablesOf(s3));
    await using local = await begin("runs/service.mjs");
    const reached = message(remote.child);
    await send(startOf(remote.told, "many", STEPS), new Agent());
    const trips = ((await reached) as { median: number }).median / TRIP;
    const rows: BenchRow[] = [
      {
        name: "round trips of the median step, one job",
        ...{ value: trips, unit: "", target: "<= 1.2", ok: trips <= 1.2 },
      },
    ];
    for (const clients of CLIENTS) {
      const rates: { here: number; there: number }[] = [];
      const seconds = SECONDS / TURNS;
      let jobs = 0;
      s3.buckets.seen.length = 0;
      for (let turn = 0; turn < TURNS; turn++) {
        const here = await load(() => startOf(local.told, "three", 20), { clients, seconds });
        const next = () => {
          jobs++;
          return startOf(remote.told, "three", 20);
        };
        const there = await load(next, { clients, seconds });
        rates.push({ here: here.rate, there: there.rate });
      }
      rows.push(
        {
          name: `durable three-step jobs, ${clients} clients, ${TRIP} ms round trips`,
          ...{ value: median(rates.map(({ there }) => there)), unit: "jobs/s" },
          baseline: { name: "local disk", value: median(rates.map(({ here }) => here)) },
          ratio: median(rates.map(({ here, there }) => there / here)),
        },
        ...costs(s3, clients, jobs),
      );
    }
    return rows;
  } finally {
    await s3.close();
  }
}

function variablesOf({ url, region }: S3Server): Record<string, string> {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const query = new URLSearchParams({ endpoint: url, region, conditional: "true" });
  return {
    SERVICE_STORAGE_URL: `s3://bench/service?${query}`,
    SERVICE_RSA_PRIVATE_KEY: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    AWS_ACCESS_KEY_ID: "AKIDTEST",
    AWS_SECRET_ACCESS_KEY: "s3-test-secret",
  };
}

/** What the requests seen since the start of a turn cost, for each job. */
function costs({ buckets: { seen } }: S3Server, clients: number, jobs: number): BenchRow[] {
  const writes = seen.filter(({ kind }) => kind === "write" || kind === "create" || kind === "list");
  const reads = seen.filter(({ kind }) => kind === "read");
  const bytes = seen.reduce((sum, one) => sum + one.bytes, 0);
  const dollars = Object.entries(PRICES).map(([where, { write, read }]) => ({
    ...{ name: `a million jobs on ${where}, ${clients} clients`, unit: "$" },
    value: (writes.length * write + reads.length * read) / jobs,
  }));
  return [
    { name: `requests for a job, ${clients} clients`, value: seen.length / jobs, unit: "" },
    { name: `bytes for a job, ${clients} clients`, value: bytes / jobs, unit: "B" },
    ...dollars,
  ];
}

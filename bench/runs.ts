import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { message } from "./peers/message.ts";
import { beginRedis } from "./peers/redis.ts";
import type { BenchRow } from "./row.ts";

const SECONDS = Number(process.env.SVC_BENCH_SECONDS ?? 5);
const STEPS = 10_000;
const script = (name: string) => join(import.meta.dirname, "runs", name);

/** Durable jobs from start to result over HTTP, what a step costs, and how fast a run is taken up again. */
export async function run(): Promise<BenchRow[]> {
  return [...(await measureJobs()), ...(await measureSteps())];
}

type Start = (id: string) => {
  readonly url: URL;
  readonly headers: Record<string, string>;
  readonly body: unknown;
};

async function measureJobs(): Promise<BenchRow[]> {
  await using service = await begin("service.mjs");
  const { url, apiKey } = service.told as { url: string; apiKey: string };
  const ours: Start = (id) => ({
    url: new URL("/agents/three/jobs", url),
    headers: { "x-api-key": apiKey, prefer: "wait=30" },
    body: {
      job_fields: { n: 20 },
      job_context: {
        workspace_id: "w",
        job_id: id,
        started_by: "bench",
        started_at: "2026-01-31T09:30:00.000Z",
        mission_id: "m",
        mission_name: "Mission",
      },
    },
  });
  await using redis = await beginRedis();
  if (!redis) {
    const [alone, together] = [await load(ours, 1), await load(ours, 16)];
    return [
      {
        name: "three-step jobs, 1 client (no redis-server here to compare with)",
        value: alone.rate,
        unit: "jobs/s",
      },
      { name: "three-step jobs, 16 clients", value: together.rate, unit: "jobs/s" },
    ];
  }
  await using bullmq = await begin("bullmq.mjs", [String(redis.port)]);
  const theirUrl = new URL("/jobs", (bullmq.told as { url: string }).url);
  const theirs: Start = (id) => ({ url: theirUrl, headers: {}, body: { id, n: 20 } });

  // In turns, so that what else the machine does weighs on both.
  await load(ours, 16, 1);
  await load(theirs, 16, 1);
  const rows: BenchRow[] = [];
  for (const clients of [1, 16]) {
    const rounds = { ours: [] as Measured[], theirs: [] as Measured[] };
    for (let round = 0; round < 2; round++) {
      rounds.theirs.push(await load(theirs, clients, SECONDS / 2));
      rounds.ours.push(await load(ours, clients, SECONDS / 2));
    }
    rows.push(...compare(clients, average(rounds.ours), average(rounds.theirs)));
  }
  return rows;
}

function compare(clients: number, ours: Measured, theirs: Measured): BenchRow[] {
  const name = "BullMQ, Redis with AOF";
  const label = `${clients} client${clients === 1 ? "" : "s"}`;
  const rate = ours.rate / theirs.rate;
  const isMany = clients > 1;
  return [
    {
      ...{ name: `three-step jobs, start to result, ${label}`, value: ours.rate, unit: "jobs/s" },
      ...{ baseline: { name, value: theirs.rate }, ratio: rate },
      ...(isMany && { target: ">= 1.5", ok: rate >= 1.5 }),
    },
    {
      ...{ name: `the same, median, ${label}`, value: ours.median, unit: "ms" },
      ...{ baseline: { name, value: theirs.median }, ratio: theirs.median / ours.median },
      ...(!isMany && { target: "below BullMQ's", ok: ours.median < theirs.median }),
    },
  ];
}

/** A run of many steps: what each costs, and how fast the record is replayed after a kill. */
async function measureSteps(): Promise<BenchRow[]> {
  const dataDir = await mkdtemp(join(tmpdir(), "bench-runs-"));
  try {
    const first = await begin("service.mjs", [dataDir]);
    const { url, apiKey } = first.told as { url: string; apiKey: string };
    const done = message(first.child);
    const begun = performance.now();
    await send(
      {
        url: new URL("/agents/many/jobs", url),
        headers: { "x-api-key": apiKey },
        body: {
          job_fields: { n: STEPS },
          job_context: {
            workspace_id: "w",
            job_id: "many",
            started_by: "bench",
            started_at: "2026-01-31T09:30:00.000Z",
            mission_id: "m",
            mission_name: "Mission",
          },
        },
      },
      new Agent(),
    );
    await done;
    const perStep = ((performance.now() - begun) / STEPS) * 1000;
    first.child.kill("SIGKILL");
    await once(first.child, "exit");

    await using second = await begin("service.mjs", [dataDir]);
    let replay: number | undefined;
    let ready = 0;
    while (replay === undefined) {
      await delay(20);
      second.child.send("many");
      ({ replay, ready } = (await message(second.child)) as { replay: number | undefined; ready: number });
    }
    return [
      { name: "a durable step, one after the other, on disk", value: perStep, unit: "µs" },
      { name: `start with the record of a run of ${STEPS} steps, to its end`, value: replay, unit: "ms" },
      {
        name: "replay of recorded steps",
        value: STEPS / ((replay - Math.min(ready, replay - 1)) / 1000),
        unit: "steps/s",
      },
    ];
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
}

interface Measured {
  readonly rate: number;
  /** Milliseconds. */
  readonly median: number;
}

let jobs = 0;

async function load(start: Start, clients: number, seconds = SECONDS): Promise<Measured> {
  const agent = new Agent({ keepAlive: true, maxSockets: clients });
  const times: number[] = [];
  const begun = performance.now();
  const until = begun + seconds * 1000;
  await Promise.all(
    Array.from({ length: clients }, async () => {
      while (performance.now() < until) {
        const sent = performance.now();
        const { result } = (await send(start(`job-${++jobs}`), agent)) as { result: { result: number } };
        if (result.result !== 41) throw new Error(`A job gave ${JSON.stringify(result)}`);
        times.push(performance.now() - sent);
      }
    }),
  );
  const took = (performance.now() - begun) / 1000;
  agent.destroy();
  times.sort((a, b) => a - b);
  return { rate: times.length / took, median: times[Math.floor(times.length / 2)]! };
}

function send({ url, headers, body }: ReturnType<Start>, agent: Agent): Promise<unknown> {
  const text = JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const all = { ...headers, "content-type": "application/json", "content-length": Buffer.byteLength(text) };
    const sent = request(url, { method: "POST", agent, headers: all }, (response) => {
      let received = "";
      response.setEncoding("utf8").on("data", (chunk: string) => {
        received += chunk;
      });
      response.on("end", () => {
        if (response.statusCode! < 300) resolve(JSON.parse(received));
        else reject(new Error(`${response.statusCode} ${received}`));
      });
    });
    sent.on("error", reject);
    sent.end(text);
  });
}

interface Begun extends AsyncDisposable {
  readonly child: ChildProcess;
  readonly told: unknown;
}

async function begin(name: string, args: readonly string[] = []): Promise<Begun> {
  const child = fork(script(name), args, { stdio: "inherit" });
  const told = await message(child);
  return {
    ...{ child, told },
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, "exit");
      child.send("end");
      await gone;
    },
  };
}

function average(all: readonly Measured[]): Measured {
  const mean = (of: (one: Measured) => number) => all.reduce((sum, one) => sum + of(one), 0) / all.length;
  return { rate: mean((one) => one.rate), median: mean((one) => one.median) };
}

import { mkdtemp, rm } from "node:fs/promises";
import { Agent } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { begin } from "./peers/begin.ts";
import { message } from "./peers/message.ts";
import { beginRedis } from "./peers/redis.ts";
import type { BenchRow } from "./row.ts";
import { measureAppends } from "./runs/append.ts";
import { load, type Measured, median, type StartRequest, send } from "./runs/load.ts";

/** For each of those compared, with each number of clients. */
const SECONDS = Number(process.env.SVC_BENCH_SECONDS ?? 12);
const TURNS = 4;
const STEPS = 10_000;
/** How many medians the slowest job of a hundred may take. */
const MOST_MEDIANS = 4;
/** How fast a step is at least, beside a bare write and sync: it may take 1.15 of them. */
const LEAST_OF_WRITE = 0.87;
const EVERYSEC = "BullMQ, Redis with AOF";
const ALWAYS = "BullMQ, AOF synced at each write";

/** Durable jobs from start to result over HTTP, and the cost of a step. */
export async function run(): Promise<BenchRow[]> {
  return [...(await measureJobs()), ...(await measureSteps())];
}

/** Starts a job of one of those compared. */
type Start = (id: string) => StartRequest;

async function measureJobs(): Promise<BenchRow[]> {
  await using service = await begin("runs/service.mjs");
  const { url, apiKey } = service.told as { url: string; apiKey: string };
  const ours: Start = (id) => ({
    url: new URL("/agents/three/jobs", url),
    headers: { "x-api-key": apiKey, prefer: "wait=30" },
    body: { job_fields: { n: 20 }, job_context: contextOf(id) },
  });
  await using everysec = await beginBullmq("everysec");
  await using always = await beginBullmq("always");
  const all: Start[] = everysec && always ? [everysec.start, ours, always.start] : [ours];
  // Long enough for hot code to be compiled, as in a service that has been up for a minute.
  for (const start of all) await load(numbered(start), { clients: 16, seconds: SECONDS / 2 });

  const rows: BenchRow[] = [];
  for (const clients of [1, 16]) {
    const rounds = new Map<Start, Measured[]>(all.map((start) => [start, []]));
    // In turns, back and forth, so that other load on the machine affects all.
    for (let turn = 0; turn < TURNS; turn++) {
      for (const start of turn % 2 === 0 ? all : all.toReversed())
        rounds.get(start)!.push(await load(numbered(start), { clients, seconds: SECONDS / TURNS }));
    }
    const own = rounds.get(ours)!;
    if (everysec && always) {
      const least = (rate: number) => ({ rate, isFaster: clients === 1 });
      rows.push(
        ...compare(clients, own, { name: EVERYSEC, rounds: rounds.get(everysec.start)! }, least(1.5)),
        ...compare(clients, own, { name: ALWAYS, rounds: rounds.get(always.start)! }, least(2)),
      );
    } else {
      const name = `three-step jobs, ${labelOf(clients)} (no redis-server here to compare with)`;
      rows.push({ name, value: median(own.map((one) => one.rate)), unit: "jobs/s" });
    }
    const slow = median(own.map((one) => one.p99 / one.median));
    rows.push({
      ...{ name: `the slowest job of a hundred, ${labelOf(clients)}`, value: slow, unit: "medians" },
      ...{ target: `<= ${MOST_MEDIANS}`, ok: slow <= MOST_MEDIANS },
    });
  }
  return rows;
}

/** The measurements compared with one of the others; the ratio is the median of the turns' ratios. */
function compare(
  clients: number,
  ours: readonly Measured[],
  theirs: { readonly name: string; readonly rounds: readonly Measured[] },
  target: { readonly rate: number; readonly isFaster: boolean },
): BenchRow[] {
  const baseline = (of: (one: Measured) => number) => ({
    name: theirs.name,
    value: median(theirs.rounds.map(of)),
  });
  const rate = median(ours.map((one, turn) => one.rate / theirs.rounds[turn]!.rate));
  const speed = median(ours.map((one, turn) => theirs.rounds[turn]!.median / one.median));
  const isMany = clients > 1;
  return [
    {
      name: `three-step jobs, start to result, ${labelOf(clients)}`,
      ...{ value: median(ours.map((one) => one.rate)), unit: "jobs/s" },
      ...{ baseline: baseline((one) => one.rate), ratio: rate },
      ...(isMany && { target: `>= ${target.rate}`, ok: rate >= target.rate }),
    },
    {
      name: `the same, median, ${labelOf(clients)}`,
      ...{ value: median(ours.map((one) => one.median)), unit: "ms" },
      ...{ baseline: baseline((one) => one.median), ratio: speed },
      ...(target.isFaster && { target: "below BullMQ's", ok: speed > 1 }),
    },
  ];
}

function labelOf(clients: number): string {
  return `${clients} client${clients === 1 ? "" : "s"}`;
}

/** A run of many steps: the cost of each. */
async function measureSteps(): Promise<BenchRow[]> {
  const dataDir = await mkdtemp(join(tmpdir(), "bench-runs-"));
  try {
    const measureBare = async () => ({
      append: await measureAppends(dataDir, { count: STEPS / 10, ahead: false }),
      write: await measureAppends(dataDir, { count: STEPS / 10, ahead: true }),
    });
    const before = await measureBare();
    await using service = await begin("runs/service.mjs", [dataDir]);
    const { url, apiKey } = service.told as { url: string; apiKey: string };
    const done = message(service.child);
    const begun = performance.now();
    const body = { job_fields: { n: STEPS }, job_context: contextOf("many") };
    await send(
      { url: new URL("/agents/many/jobs", url), headers: { "x-api-key": apiKey }, body },
      new Agent(),
    );
    await done;
    const step = ((performance.now() - begun) / STEPS) * 1000;
    const after = await measureBare();
    const append = (before.append + after.append) / 2;
    const write = (before.write + after.write) / 2;
    return [
      {
        ...{ name: "a durable step, one after the other, on disk", value: step, unit: "µs" },
        ...{ baseline: { name: "a bare append and fdatasync", value: append }, ratio: append / step },
      },
      {
        ...{ name: "the same", value: step, unit: "µs" },
        ...{ baseline: { name: "a bare write and fdatasync in a file that is long enough", value: write } },
        ...{ ratio: write / step, target: `>= ${LEAST_OF_WRITE}`, ok: write / step >= LEAST_OF_WRITE },
      },
    ];
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
}

function contextOf(id: string) {
  return {
    workspace_id: "w",
    job_id: id,
    started_by: "bench",
    started_at: "2026-01-31T09:30:00.000Z",
    mission_id: "m",
    mission_name: "Mission",
  };
}

let jobs = 0;

function numbered(start: Start): () => StartRequest {
  return () => start(`job-${++jobs}`);
}

/**
 * BullMQ with its own Redis, which syncs its file once a second, its default, or at each write, as a step
 * does.
 */
async function beginBullmq(
  sync: "everysec" | "always",
): Promise<(AsyncDisposable & { readonly start: Start }) | undefined> {
  const redis = await beginRedis(["--appendfsync", sync]);
  if (!redis) return undefined;
  const bullmq = await begin("runs/bullmq.mjs", [String(redis.port)]);
  const url = new URL("/jobs", (bullmq.told as { url: string }).url);
  return {
    start: (id) => ({ url, headers: {}, body: { id, n: 20 } }),
    async [Symbol.asyncDispose]() {
      await bullmq[Symbol.asyncDispose]();
      await redis[Symbol.asyncDispose]();
    },
  };
}

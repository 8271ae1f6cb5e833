import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { StoredJob } from "../src/core/models/job.ts";
import type { StoreFactory } from "../src/core/store/store.ts";
import { defineAgent } from "../src/index.ts";
import { STORE } from "../src/plugin.ts";
import { postgres } from "../src/postgres.ts";
import { type TestServer, testServer } from "../src/test-server.ts";
import { message } from "./peers/message.ts";
import { beginPostgres } from "./peers/postgres.ts";
import { beginRedis } from "./peers/redis.ts";
import { query } from "./postgres/counters.ts";
import type { BenchRow } from "./row.ts";

const JOBS = Number(process.env.SVC_BENCH_ADMIN_JOBS ?? 100_000);
const ROUNDS = Number(process.env.SVC_BENCH_ROUNDS ?? 25);
const TABS = 20;
const CLIENTS = 16;
const WINDOW = Number(process.env.SVC_BENCH_ADMIN_WINDOW ?? 5000);

const quick = defineAgent({
  name: "Quick",
  version: "1.0.0",
  methods: { job_start: { run: () => ({ message: "done" }) } },
});

/** The cost of the jobs page with many jobs in each store, and of open pages for running jobs. */
export async function run(): Promise<BenchRow[]> {
  await using board = await beginBoard(JOBS);
  const note = board ? "" : " (no redis-server here to compare bull-board with)";
  const inFiles = await measureLists(undefined, { most: 15, note: `files${note}`, board });
  await using database = await beginPostgres();
  const skipped = { name: "on Postgres: skipped, this machine has none", value: 0, unit: "ms" };
  const inDatabase = database
    ? await measureLists(postgres({ url: database.url }), {
        ...{ most: 30, note: "Postgres", board },
        // As the database does by itself within a minute.
        filled: () => query(database.url, "analyze"),
      })
    : [skipped];
  return [...inFiles, ...inDatabase, await measureTabs()];
}

interface Measured {
  /** Milliseconds of the median. */
  readonly most: number;
  readonly note: string;
  readonly board: Board | undefined;
  readonly filled?: () => Promise<unknown>;
}

async function measureLists(
  store: StoreFactory | undefined,
  { most, note, board, filled }: Measured,
): Promise<BenchRow[]> {
  await using server = await testServer({ agents: [quick], logLevel: "error", store });
  await fill(server, JOBS);
  await filled?.();
  const page = async (name: string, path: string, status?: string): Promise<BenchRow> => {
    const ours: number[] = [];
    const theirs: number[] = [];
    // In turns, so that other load on the machine affects both.
    for (let round = 0; round < ROUNDS + 5; round++) {
      const [own, other] = [await timeOf(server, path), status && (await board?.timeOf(status))];
      if (round < 5) continue;
      ours.push(own);
      if (other) theirs.push(other);
    }
    const value = median(ours);
    const row = { name: `${name}, ${JOBS} jobs, ${note}`, value, unit: "ms", ok: value <= most };
    const target = `<= ${most}`;
    if (theirs.length === 0) return { ...row, target };
    const baseline = { name: `bull-board's list of ${status} jobs, without the page`, value: median(theirs) };
    return { ...row, baseline, ratio: baseline.value / value, target };
  };
  return [
    await page("jobs page, first", "/admin/jobs", "completed"),
    await page("jobs page, filtered", "/admin/jobs?status=failed&agent_name=quick", "failed"),
    await page("jobs page, searched", "/admin/jobs?search=name-77"),
    await page("jobs page, by error text", "/admin/jobs?status=failed&search=econnrefused"),
    await page("failures by reason", "/admin/failures"),
    await page("failures by reason, 24 hours", "/admin/failures?days=1"),
  ];
}

interface Board extends AsyncDisposable {
  /** Milliseconds that its server takes for its page's request for fifty jobs of a status. */
  timeOf(status: string): Promise<number>;
}

/** bull-board over as many jobs in BullMQ; `undefined` if the machine has no Redis. */
async function beginBoard(count: number): Promise<Board | undefined> {
  const redis = await beginRedis();
  if (!redis) return undefined;
  const script = join(import.meta.dirname, "peers", "bull-board.mjs");
  const child = fork(script, [String(redis.port), String(count)], { stdio: "inherit" });
  await message(child);
  return {
    async timeOf(status) {
      child.send(`/api/queues?activeQueue=quick&status=${status}&page=1&jobsPerPage=50`);
      const answer = (await message(child)) as { milliseconds: number; rows: number };
      if (answer.rows !== 50) throw new Error(`bull-board gave ${answer.rows} jobs`);
      return answer.milliseconds;
    },
    async [Symbol.asyncDispose]() {
      const gone = once(child, "exit");
      child.send("end");
      await gone;
      await redis[Symbol.asyncDispose]();
    },
  };
}

async function fill(server: TestServer, count: number): Promise<void> {
  const table = server.service.get(STORE).table("Job");
  const begun = Date.now() - count * 1000;
  for (let from = 0; from < count; from += 500) {
    const batch = Array.from({ length: Math.min(500, count - from) }, (_, at) => toJob(from + at, begun));
    await Promise.all(batch.map((job) => table.insert(job)));
  }
}

const ERRORS = [
  "it broke",
  "connect ECONNREFUSED 10.0.0.12:443",
  "quota exceeded",
  "bad gateway",
  "no answer",
];

function toJob(index: number, begun: number): StoredJob {
  const id = `job-${index}`;
  const at = new Date(begun + index * 1000).toISOString();
  const status = index % 10 === 0 ? "failed" : "completed";
  return {
    id,
    name: `name-${index}`,
    agent_name: "quick",
    status,
    job_context: {
      workspace_id: "w",
      job_id: id,
      started_by: "bench",
      started_at: at,
      mission_id: "m",
      mission_name: "Bench",
      mission_context: null,
      job_instructions: null,
    },
    payload: null,
    result: { message: "done" },
    error: status === "failed" ? ERRORS[(index / 10) % ERRORS.length]! : null,
    responses: [],
    finished_at: at,
    created_at: at,
    updated_at: at,
    agent_parameters: null,
    case_count: 0,
    job_fields: {},
    total_cost: 0.01,
    stop_reason: null,
    agent_version: null,
    code_fingerprint: null,
    schedule: null,
    concurrency_key: null,
    held: null,
    parent: null,
    forked_from: null,
    suspended: null,
    pulled_from: null,
    fingerprint: id,
    encrypted_agent_parameters: null,
    open_questions: 0,
    run_count: 1,
    idempotency_key: null,
  };
}

/** Without a socket: the service's own time. */
async function timeOf(server: TestServer, path: string): Promise<number> {
  const headers = { "x-api-key": server.key, accept: "text/html" };
  const begun = performance.now();
  const response = await server.service.fetch(new Request(server.url + path, { headers }));
  await response.text();
  return performance.now() - begun;
}

/** Jobs per second without and with open dashboards, in turns. */
async function measureTabs(): Promise<BenchRow> {
  await using server = await testServer({ agents: [quick], logLevel: "error", maxQueuedJobs: 100_000 });
  await work(server, 1000);
  const alone: number[] = [];
  const watched: number[] = [];
  for (let round = 0; round < 3; round++) {
    alone.push(await work(server, WINDOW));
    const over = new AbortController();
    const tabs = Array.from({ length: TABS }, () => openTab(server, over.signal));
    watched.push(await work(server, WINDOW));
    over.abort();
    await Promise.allSettled(tabs);
  }
  const [value, baseline] = [median(watched), median(alone)];
  return {
    name: `jobs with ${TABS} open dashboards, ${CLIENTS} clients`,
    value,
    unit: "jobs/s",
    baseline: { name: "no open page", value: baseline },
    ratio: value / baseline,
    target: ">= 0.8",
    ok: value / baseline >= 0.8,
  };
}

/** What the page's script does: requests the dashboard's fragment at each reported change. */
async function openTab(server: TestServer, signal: AbortSignal): Promise<void> {
  const headers = { "x-api-key": server.key, "hx-request": "true" };
  const response = await fetch(`${server.url}/admin/api/live`, { headers, signal });
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    if (!chunk.includes("event: change")) continue;
    const fragment = await fetch(`${server.url}/admin/api/dashboard`, { headers, signal });
    await fragment.text();
  }
}

let started = 0;

async function work(server: TestServer, milliseconds: number): Promise<number> {
  const end = performance.now() + milliseconds;
  let done = 0;
  const client = async (): Promise<void> => {
    while (performance.now() < end) {
      started++;
      const job_id = `bench-${started}`;
      const job_context = {
        workspace_id: "w",
        job_id,
        started_by: "bench",
        started_at: new Date().toISOString(),
        mission_id: "m",
        mission_name: "Bench",
      };
      const response = await server.request("/agents/quick/jobs", { json: { job_context, job_fields: {} } });
      await response.text();
      done++;
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  return (done / milliseconds) * 1000;
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

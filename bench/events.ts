import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BenchRow } from "./row.ts";

const ROUNDS = Number(process.env.SVC_BENCH_EVENT_ROUNDS ?? 5);
const EVENTS = Number(process.env.SVC_BENCH_EVENTS ?? 3000);
const WAITING = Number(process.env.SVC_BENCH_WAITING ?? 100_000);
const CONCURRENCY = 16;
const script = (name: string) => join(import.meta.dirname, "events", name);

/** The cost of events to the control system: speed, memory, and the effect on agents. */
export async function run(): Promise<BenchRow[]> {
  const sink = fork(script("sink.mjs"));
  const folders: string[] = [];
  const folder = async (): Promise<string> => {
    const made = await mkdtemp(join(tmpdir(), "bench-events-"));
    folders.push(made);
    return made;
  };
  try {
    const { port } = (await message(sink)) as { port: number };
    const url = `http://127.0.0.1:${port}`;
    return [
      await measureDelivery(sink, url, await folder()),
      await measureHanging(sink, url, [await folder(), await folder()]),
      await measureMemory(sink, url, [await folder(), await folder()]),
    ];
  } finally {
    sink.kill();
    await Promise.all(folders.map((made) => rm(made, { recursive: true, force: true })));
  }
}

/** From the moment that the control system accepts messages again until it has all waiting ones. */
async function measureDelivery(sink: ChildProcess, url: string, dataDir: string): Promise<BenchRow> {
  const service = await startService({ dataDir, url });
  const rates = { service: [] as number[], bare: [] as number[] };
  for (let round = 0; round <= ROUNDS; round++) {
    await tell(sink, { mode: "refuse" });
    await tell(service, { command: "fill", count: EVENTS });
    await tell(sink, { target: EVENTS });
    let reached = until(sink, "reached");
    let begun = performance.now();
    await tell(sink, { mode: "ok" });
    await reached;
    const delivered = (EVENTS * 1000) / (performance.now() - begun);

    await tell(sink, { target: EVENTS });
    reached = until(sink, "reached");
    begun = performance.now();
    await Promise.all([reached, tell(service, { command: "bare", count: EVENTS })]);
    const bare = (EVENTS * 1000) / (performance.now() - begun);
    // The first round warms up.
    if (round > 0) {
      rates.service.push(delivered);
      rates.bare.push(bare);
    }
  }
  await end(service);
  const ratio = median(rates.service.map((rate, round) => rate / rates.bare[round]!));
  return {
    name: `deliver ${EVENTS} waiting events of 200 jobs, ${CONCURRENCY} concurrently`,
    value: median(rates.service),
    unit: "events/s",
    baseline: { name: "bare fetch loop", value: median(rates.bare) },
    ratio,
    target: ">= 0.6",
    ok: ratio >= 0.6,
  };
}

/** Jobs of 20 steps, eight at a time, while the control system responds and while it hangs. */
async function measureHanging(sink: ChildProcess, url: string, folders: string[]): Promise<BenchRow> {
  const count = 32;
  const services = [
    await startService({ dataDir: folders[0]!, url }),
    await startService({ dataDir: folders[1]! }),
  ] as const;
  await tell(sink, { mode: "hang" });
  const times = { hanging: [] as number[], local: [] as number[] };
  for (let round = 0; round <= ROUNDS; round++) {
    const prefix = `round-${round}`;
    // They take turns in going first: other load on the machine affects both.
    for (const which of round % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
      const { milliseconds } = await tell(services[which], { command: "jobs", count, prefix });
      if (round > 0) times[which === 0 ? "hanging" : "local"].push(milliseconds as number);
    }
  }
  await tell(sink, { mode: "ok" });
  await Promise.all(services.map(end));
  // The fastest rounds: noise only makes one slower.
  const [value, local] = [Math.min(...times.hanging), Math.min(...times.local)];
  const ratio = value / local;
  return {
    name: `${count} jobs of 20 steps while the control system hangs`,
    value,
    unit: "ms",
    baseline: { name: "without one", value: local },
    ratio,
    target: "<= 1.1",
    ok: ratio <= 1.1,
  };
}

async function measureMemory(sink: ChildProcess, url: string, folders: string[]): Promise<BenchRow> {
  const idle = await startService({ dataDir: folders[0]!, url });
  const before = (await tell(idle, { command: "memory" })).megabytes as number;
  await end(idle);
  await tell(sink, { mode: "refuse" });
  const filler = await startService({ dataDir: folders[1]!, url });
  await tell(filler, { command: "fill", count: WAITING });
  await end(filler);
  const waiting = await startService({ dataDir: folders[1]!, url });
  const after = (await tell(waiting, { command: "memory" })).megabytes as number;
  await end(waiting);
  const value = after - before;
  return {
    name: `memory of ${WAITING} waiting events above an idle service`,
    value,
    unit: "MB",
    baseline: { name: "idle", value: before },
    target: "<= 150",
    ok: value <= 150,
  };
}

async function startService(options: { dataDir: string; url?: string }): Promise<ChildProcess> {
  const child = fork(script("service.mjs"), [JSON.stringify({ concurrency: CONCURRENCY, ...options })], {
    execArgv: ["--expose-gc"],
  });
  await message(child);
  return child;
}

async function end(child: ChildProcess): Promise<void> {
  const exit = once(child, "exit");
  await tell(child, { command: "close" });
  child.kill("SIGKILL");
  await exit;
}

async function message(child: ChildProcess): Promise<Record<string, unknown>> {
  const [answer] = (await once(child, "message")) as [Record<string, unknown>];
  return answer;
}

function tell(child: ChildProcess, what: object): Promise<Record<string, unknown>> {
  const field = "command" in what ? "done" : "obeyed";
  const answer = until(child, field);
  child.send(what);
  return answer;
}

function until(child: ChildProcess, field: string): Promise<Record<string, unknown>> {
  return new Promise((resolve) => {
    const listen = (answer: Record<string, unknown>): void => {
      if (!(field in answer)) return;
      child.off("message", listen);
      resolve(answer);
    };
    child.on("message", listen);
  });
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { load } from "./http/load.ts";
import { message } from "./peers/message.ts";
import type { BenchRow } from "./row.ts";

const ROUNDS = Number(process.env.SVC_BENCH_ROUNDS ?? 7);
const script = (name: string) => join(import.meta.dirname, "http", name);

/** The cost of the machine interface, and of an empty service. */
export async function run(): Promise<BenchRow[]> {
  return [await measureGet(), ...(await measureStart())];
}

/**
 * Requests per second of the server's processor time: unlike those per second of the clock, they do not
 * depend on other load on the machine, nor on the speed of the client. The two servers take turns.
 */
async function measureGet(): Promise<BenchRow> {
  const server = fork(script("server.mjs"));
  const { ports, apiKey } = (await message(server)) as {
    ports: Record<"service" | "bare", number>;
    apiKey: string;
  };
  const rate = async (name: "service" | "bare", milliseconds: number): Promise<number> => {
    const before = await cpuSeconds(server);
    const answered = await load({
      port: ports[name],
      path: "/jobs/job-1",
      headers: { "x-api-key": apiKey },
      connections: 32,
      milliseconds,
    });
    return answered / ((await cpuSeconds(server)) - before);
  };
  await rate("service", 1000);
  await rate("bare", 1000);
  const rates = { service: [] as number[], bare: [] as number[] };
  for (let round = 0; round < ROUNDS; round++) {
    for (const name of ["bare", "service"] as const) rates[name].push(await rate(name, 1000));
  }
  server.send("end");
  await once(server, "exit");
  // The best round of each is the least disturbed one.
  const [value, bare] = [Math.max(...rates.service), Math.max(...rates.bare)];
  return {
    name: "GET of a job, per second of processor time",
    value,
    unit: "requests/s",
    baseline: { name: "bare h3 route", value: bare },
    ratio: value / bare,
    target: ">= 0.95",
    ok: value / bare >= 0.95,
  };
}

async function measureStart(): Promise<BenchRow[]> {
  const dataDir = await mkdtemp(join(tmpdir(), "bench-start-"));
  const times: number[] = [];
  const memory: number[] = [];
  try {
    for (let round = 0; round < 5; round++) {
      const begun = performance.now();
      const service = fork(script("start.mjs"), [dataDir]);
      await message(service);
      times.push(performance.now() - begun);
      memory.push(((await message(service)) as { rss: number }).rss / 1e6);
      await once(service, "exit");
    }
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
  // The fastest start is the least disturbed one.
  const [time, rss] = [Math.min(...times), median(memory)];
  return [
    { name: "start of an empty service", value: time, unit: "ms", target: "<= 300 ms", ok: time <= 300 },
    { name: "memory of an empty service", value: rss, unit: "MB", target: "<= 60 MB", ok: rss <= 60 },
  ];
}

async function cpuSeconds(child: ChildProcess): Promise<number> {
  child.send("cpu");
  const { cpu } = (await message(child)) as { cpu: NodeJS.CpuUsage };
  return (cpu.user + cpu.system) / 1e6;
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] as number;
}

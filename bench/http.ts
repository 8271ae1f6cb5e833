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
  return [...(await measureGet()), ...(await measureStart())];
}

/**
 * Requests per second of the server's processor time: unlike those per second of the clock, they do not
 * depend on other load on the machine, nor on the speed of the client. The servers take turns.
 */
async function measureGet(): Promise<BenchRow[]> {
  const server = fork(script("server.mjs"));
  const { ports, keys } = (await message(server)) as {
    ports: Record<Server, number>;
    keys: Record<Key, string>;
  };
  const rate = async (name: Server, milliseconds: number, key?: Key): Promise<number> => {
    const before = await cpuSeconds(server);
    const answered = await load({
      port: ports[name],
      path: key === undefined ? "/jobs/job-1" : "/jobs/job-2",
      headers: { "x-api-key": keys[key ?? "root"] },
      connections: 32,
      milliseconds,
    });
    return answered / ((await cpuSeconds(server)) - before);
  };
  const best: Record<Server, number> = { bare: 0, dressed: 0, service: 0 };
  const names = Object.keys(best) as Server[];
  for (const name of names) await rate(name, 1000);
  // The best round of each is the least disturbed one.
  for (let round = 0; round < ROUNDS; round++) {
    for (const name of names) best[name] = Math.max(best[name], await rate(name, 1000));
  }
  const byKey: Record<Key, number> = { root: 0, named: 0, limited: 0 };
  for (let round = 0; round < ROUNDS; round++)
    for (const key of Object.keys(byKey) as Key[])
      byKey[key] = Math.max(byKey[key], await rate("service", 1000, key));
  server.send("end");
  await once(server, "exit");
  const withKey = (name: string, key: Key) => {
    const ratio = byKey[key] / byKey.root;
    return {
      ...{ name, value: byKey[key], unit: "requests/s", ratio },
      baseline: { name: "with the API key", value: byKey.root },
      ...{ target: ">= 0.95", ok: ratio >= 0.95 },
    };
  };
  const row = { name: "GET of a job, per second of processor time", value: best.service, unit: "requests/s" };
  const toBare = best.service / best.bare;
  return [
    {
      ...row,
      ...{ baseline: { name: "bare h3 route", value: best.bare }, ratio: toBare },
      ...{ target: ">= 0.95", ok: toBare >= 0.95 },
    },
    {
      ...{ ...row, name: "the same, beside a route that does as much without a check" },
      baseline: { name: "h3 route, JSON and headers", value: best.dressed },
      ratio: best.service / best.dressed,
    },
    withKey("the same, with a named key", "named"),
    withKey("the same, with a named key that is limited to a workspace", "limited"),
  ];
}

/** The service, an h3 route that returns a text, and one that serializes the object and sends all headers. */
type Server = "bare" | "dressed" | "service";

/** Who asks: the API key, a named key that sees everything, and one that sees a part. */
type Key = "root" | "named" | "limited";

async function measureStart(): Promise<BenchRow[]> {
  const dataDir = await mkdtemp(join(tmpdir(), "bench-start-"));
  const took = { service: [] as Start[], bare: [] as Start[] };
  try {
    for (let round = 0; round < 5; round++) {
      took.service.push(await startOf("start.mjs", dataDir));
      took.bare.push(await startOf("bare.mjs"));
    }
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
  // The fastest start is the least disturbed one.
  const [time, bareTime] = [fastest(took.service), fastest(took.bare)];
  const [rss, bareRss] = [medianMemory(took.service), medianMemory(took.bare)];
  const beside = (value: number) => ({ baseline: { name: "h3 and valibot alone", value } });
  return [
    {
      ...{ name: "start of an empty service", value: time, unit: "ms", ...beside(bareTime) },
      ...{ target: "<= 300 ms", ok: time <= 300 },
    },
    {
      ...{ name: "memory of an empty service", value: rss, unit: "MB", ...beside(bareRss) },
      ...{ target: "<= 60 MB", ok: rss <= 60 },
    },
  ];
}

interface Start {
  readonly milliseconds: number;
  readonly megabytes: number;
}

async function startOf(name: string, ...args: string[]): Promise<Start> {
  const begun = performance.now();
  const child = fork(script(name), args);
  await message(child);
  const milliseconds = performance.now() - begun;
  const { rss } = (await message(child)) as { rss: number };
  await once(child, "exit");
  return { milliseconds, megabytes: rss / 1e6 };
}

const fastest = (starts: readonly Start[]) => Math.min(...starts.map(({ milliseconds }) => milliseconds));
const medianMemory = (starts: readonly Start[]) => median(starts.map(({ megabytes }) => megabytes));

async function cpuSeconds(child: ChildProcess): Promise<number> {
  child.send("cpu");
  const { cpu } = (await message(child)) as { cpu: NodeJS.CpuUsage };
  return (cpu.user + cpu.system) / 1e6;
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] as number;
}

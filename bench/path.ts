import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Begun, begin } from "./peers/begin.ts";
import { message } from "./peers/message.ts";
import { buildOf } from "./peers/reference.ts";
import type { BenchRow } from "./row.ts";
import { load, median } from "./runs/load.ts";
import { startOf } from "./runs/start-of.ts";

/** The build that was fastest before limits, hooks, and instances came. */
const REFERENCE = "5176aad";
const DIST = fileURLToPath(new URL("../dist", import.meta.url));
/** How many times the rate of that build, with 16 clients. */
const TARGET = 1.25;
/** Jobs of a turn: a number, as what is compiled and what is collected depend on it. */
const JOBS = Number(process.env.SVC_BENCH_JOBS ?? 1000);
const WARM_UP = 4 * JOBS;
const TURNS = Number(process.env.SVC_BENCH_TURNS ?? 5);
const CLIENTS = (process.env.SVC_BENCH_CLIENTS ?? "1,16,64").split(",").map(Number);

/** What a job used, and how many there were per second. */
interface Used {
  readonly rate: number;
  /** Microseconds of processor time. */
  readonly cpu: number;
  /** Bytes. */
  readonly allocated: number;
  readonly bytes: number;
  readonly syncs: number;
  readonly calls: number;
  /** How many functions were called, of how many modules: of all jobs together. */
  readonly functions: number;
  readonly modules: number;
}

interface Measure {
  readonly label: string;
  readonly unit: string;
  readonly scale?: number;
  readonly target?: number | undefined;
}

/** The measures of a row; only the first depends on what else the machine does. */
const MEASURES: Readonly<Partial<Record<keyof Used, Measure>>> = {
  rate: { label: "three-step jobs", unit: "jobs/s" },
  cpu: { label: "processor time", unit: "µs/job" },
  allocated: { label: "allocated", unit: "KB/job", scale: 1 / 1000 },
  bytes: { label: "written", unit: "bytes/job" },
  syncs: { label: "syncs", unit: "per job" },
};

/** What a three-step job over HTTP costs, beside an earlier build: in turns, in one run. */
export async function run(): Promise<BenchRow[]> {
  const reference = await buildOf(REFERENCE);
  await using control = await beginControlSystem();
  const rows: BenchRow[] = [];
  for (const [kind, url] of [
    ["", ""],
    [", with a control system", control.url],
  ] as const)
    rows.push(...(await compare(reference, kind, url)));
  return rows;
}

async function compare(reference: string | undefined, kind: string, control: string): Promise<BenchRow[]> {
  const folder = await mkdtemp(join(tmpdir(), "bench-path-"));
  const rows: BenchRow[] = [];
  try {
    await using ours = await begin("path/service.mjs", [DIST, join(folder, "ours"), control]);
    await using theirs = reference
      ? await begin("path/service.mjs", [reference, join(folder, "theirs"), control])
      : undefined;
    const all: Begun[] = theirs ? [ours, theirs] : [ours];
    // Long enough for hot code to be compiled.
    for (const service of all) await measure(service, 16, WARM_UP);
    const rates = new Map<number, number>();
    for (const clients of control ? [16] : CLIENTS) {
      const used = await inTurns(all, clients, TURNS);
      rates.set(clients, median(used[0]!.map(({ rate }) => rate)));
      const label = `${kind}, ${clients} client${clients === 1 ? "" : "s"}`;
      for (const [key, { label: name, ...how }] of entriesOf(MEASURES)) {
        const target = key === "rate" && clients === 16 && !control ? TARGET : undefined;
        rows.push(rowOf(key, { ...how, target, label: `${name}${label}` }, used));
      }
    }
    const [few, many] = [rates.get(16), rates.get(64)];
    if (few !== undefined && many !== undefined) {
      const ratio = many / few;
      rows.push({
        ...{ name: "64 clients beside 16", value: ratio, unit: "times the jobs" },
        ...{ target: ">= 1", ok: ratio >= 1 },
      });
    }
    // Last, as counting makes everything slower.
    for (const { child } of all) await ask(child, "count");
    const used = await inTurns(all, 1, 1);
    rows.push(
      rowOf("calls", { label: `function calls${kind}`, unit: "per job" }, used),
      rowOf("functions", { label: `functions that a job calls${kind}`, unit: "functions" }, used),
      rowOf("modules", { label: `modules that they are in${kind}`, unit: "modules" }, used),
    );
    return rows;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function entriesOf(measures: typeof MEASURES): [keyof Used, Measure][] {
  return Object.entries(measures) as [keyof Used, Measure][];
}

/** What each service used in each turn: back and forth, so that other load on the machine affects both. */
async function inTurns(all: readonly Begun[], clients: number, turns: number): Promise<Used[][]> {
  const used: Used[][] = all.map(() => []);
  for (let turn = 0; turn < turns; turn++) {
    const order = turn % 2 === 0 ? all : all.toReversed();
    for (const service of order) used[all.indexOf(service)]!.push(await measure(service, clients, JOBS));
  }
  return used;
}

async function measure({ child, told }: Begun, clients: number, most: number): Promise<Used> {
  await ask(child, "take");
  const { jobs, rate } = await load(() => startOf(told, "three", 20), { clients, most });
  const { functions, modules, ...sums } = (await ask(child, "take")) as Omit<Used, "rate">;
  return { rate, functions, modules, ...mapValues(sums, (sum) => sum / jobs) };
}

function mapValues<T extends object>(of: T, to: (value: number) => number): T {
  return Object.fromEntries(Object.entries(of).map(([key, value]) => [key, to(value)])) as T;
}

async function ask(child: Begun["child"], what: "take" | "count"): Promise<unknown> {
  const answer = message(child);
  child.send(what);
  return answer;
}

/** The medians of the turns of both, and their ratio: above 1 where this build is better. */
function rowOf(
  key: keyof Used,
  { label, unit, scale = 1, target }: Measure,
  used: readonly Used[][],
): BenchRow {
  const [value, other] = used.map((turns) => median(turns.map((one) => one[key] * scale)));
  if (other === undefined) return { name: label, value: value!, unit };
  const ratio = key === "rate" ? value! / other : other / value!;
  return {
    name: label,
    value: value!,
    unit,
    baseline: { name: `build of ${REFERENCE}`, value: other },
    ratio,
    ...(target !== undefined && { target: `>= ${target}`, ok: ratio >= target }),
  };
}

/** A control system that takes everything. */
async function beginControlSystem(): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer((request, response) => {
    request
      .resume()
      .on("end", () => response.writeHead(200, { "Content-Type": "application/json" }).end("{}"));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

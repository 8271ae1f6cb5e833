import { fork } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { Agent } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { begin } from "./peers/begin.ts";
import { message } from "./peers/message.ts";
import type { BenchRow } from "./row.ts";
import { median, send } from "./runs/load.ts";

const STEPS = Number(process.env.SVC_BENCH_STEPS ?? 10_000);
const TURNS = 5;
const LEAST = 80_000;

/** How fast a run of many steps is replayed after a kill, beside merely reading and parsing its lines. */
export async function run(): Promise<BenchRow[]> {
  const folder = await mkdtemp(join(tmpdir(), "bench-replay-"));
  const dataDir = join(folder, "data");
  try {
    await record(dataDir, { steps: STEPS });
    const starts: { replay: number; ready: number }[] = [];
    const bare: number[] = [];
    for (let turn = 0; turn < TURNS; turn++) {
      // Each finds what the first kill has left: a job that was under way at one kill after the other is held.
      const copy = join(folder, `copy-${turn}`);
      await cp(dataDir, copy, { recursive: true, filter: (path) => !path.endsWith(".sock") });
      starts.push(await replay(copy));
      bare.push(await readBare(dataDir));
    }
    const took = median(starts.map(({ replay, ready }) => replay - ready));
    const rate = (STEPS / took) * 1000;
    const most = (STEPS / median(bare)) * 1000;
    return [
      {
        ...{ name: "recorded calls, replayed", value: rate, unit: "calls/s" },
        ...{ baseline: { name: "their lines read, parsed and awaited", value: most }, ratio: rate / most },
        ...{ target: `>= ${LEAST.toLocaleString("en")}`, ok: rate >= LEAST },
      },
      {
        ...{ name: `start with the record of a run of ${STEPS} steps, to its end`, unit: "ms" },
        value: median(starts.map(({ replay }) => replay)),
      },
    ];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Leaves a job behind that has had its steps, each with a file of a size as its result, and a process that was killed. */
export async function record(
  dataDir: string,
  { steps, size = 0 }: { readonly steps: number; readonly size?: number },
): Promise<void> {
  const { child, told } = await begin("runs/service.mjs", [dataDir]);
  const { url, apiKey } = told as { url: string; apiKey: string };
  const done = message(child);
  const started = { started_by: "bench", started_at: "2026-01-31T09:30:00.000Z" };
  const job_context = {
    workspace_id: "w",
    job_id: "many",
    ...started,
    mission_id: "m",
    mission_name: "Mission",
  };
  await send(
    {
      url: new URL("/agents/many/jobs", url),
      headers: { "x-api-key": apiKey },
      body: { job_fields: { n: steps, size }, job_context },
    },
    new Agent(),
  );
  await done;
  child.kill("SIGKILL");
  await once(child, "exit");
}

/** Starts a service on what a killed one has left: milliseconds until its job is where it was. */
export async function replay(dataDir: string): Promise<{ replay: number; ready: number }> {
  const { child } = await begin("runs/service.mjs", [dataDir]);
  for (;;) {
    await delay(20);
    child.send("many");
    const told = (await message(child)) as { replay: number | undefined; ready: number };
    if (told.replay === undefined) continue;
    child.kill("SIGKILL");
    await once(child, "exit");
    return { replay: told.replay, ready: Math.min(told.ready, told.replay - 1) };
  }
}

async function readBare(dataDir: string): Promise<number> {
  const child = fork(fileURLToPath(new URL("replay/bare.mjs", import.meta.url)), [dataDir]);
  const gone = once(child, "exit");
  const { took, given } = (await message(child)) as { took: number; given: number };
  await gone;
  if (given < STEPS) throw new Error(`Only ${given} results are there`);
  return took;
}

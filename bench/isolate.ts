import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { Agent } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { freePort } from "./peers/free-port.ts";
import type { BenchRow } from "./row.ts";
import { median, send } from "./runs/load.ts";

const STEPS = Number(process.env.SVC_BENCH_STEPS ?? 2000);
const TURNS = 6;
const MOST = 1.5;
const APIKEY = "key-of-this-benchmark";

/** What a durable step of an isolated agent costs beside one of an agent in the service's process, in turns, on disk. */
export async function run(): Promise<BenchRow[]> {
  await using service = await startService();
  const took = { inside: [] as number[], apart: [] as number[] };
  // The first of each is not counted: its code is compiled meanwhile.
  for (let turn = -1; turn < TURNS; turn++) {
    for (const slug of turn % 2 === 0 ? (["inside", "apart"] as const) : (["apart", "inside"] as const)) {
      const one = await service.measure(slug, `${slug}-${turn}`);
      if (turn >= 0) took[slug].push(one);
    }
  }
  const ratio = median(took.apart.map((one, turn) => one / took.inside[turn]!));
  return [
    {
      ...{
        name: `a durable step of an isolated agent, ${STEPS} in a job`,
        value: median(took.apart),
        unit: "µs",
      },
      ...{ baseline: { name: "in the service's process", value: median(took.inside) }, ratio },
      ...{ target: `<= ${MOST}`, ok: ratio <= MOST },
    },
  ];
}

interface Service extends AsyncDisposable {
  /** Has an agent run one job; resolves with the microseconds that a step of it took. */
  measure(slug: string, id: string): Promise<number>;
}

/** Isolated agents are loaded again from the file that `svc` runs. */
async function startService(): Promise<Service> {
  const dataDir = await mkdtemp(join(tmpdir(), "bench-isolate-"));
  const port = await freePort();
  const path = (name: string) => fileURLToPath(new URL(name, import.meta.url));
  const args = ["start", path("isolate/controller.mjs"), "--port", String(port)];
  const more = { SERVICE_API_KEY: APIKEY, SERVICE_DATA_DIR: dataDir, SERVICE_BUILD: "bench" };
  const child = spawn(process.execPath, [path("../dist/cli.js"), ...args], {
    ...{ env: { ...process.env, ...more }, stdio: ["ignore", "ignore", "inherit"] },
  });
  const url = `http://127.0.0.1:${port}`;
  for (let isUp = false; !isUp; ) {
    if (child.exitCode !== null) throw new Error(`The service ended with ${child.exitCode}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
    isUp = await fetch(`${url}/.well-known/health`).then(
      ({ ok }) => ok,
      () => false,
    );
  }
  const agent = new Agent();
  return {
    async measure(slug, id) {
      const started = { started_by: "bench", started_at: "2026-01-31T09:30:00.000Z" };
      const job_context = {
        workspace_id: "w",
        job_id: id,
        ...started,
        mission_id: "m",
        mission_name: "Mission",
      };
      const { result } = (await send(
        {
          url: new URL(`/agents/${slug}/jobs`, url),
          headers: { "x-api-key": APIKEY, prefer: "wait=60" },
          body: { job_fields: { n: STEPS }, job_context },
        },
        agent,
      )) as { result: { took: number } };
      return result.took;
    },
    async [Symbol.asyncDispose]() {
      const gone = once(child, "exit");
      child.kill();
      await gone;
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BenchRow } from "./row.ts";
import { median } from "./runs/load.ts";

const STEPS = Number(process.env.SVC_BENCH_STEPS ?? 300);
const TURNS = 9;
const LISTS = 20;
/** How much more an encrypted store may take. */
const MOST = 1.5;

/** The built package; named so that the types need no build. */
const BUILT = new URL("../dist/", import.meta.url).href;

/** What encryption at rest costs: jobs with results of 2 KB, and pages of 100 jobs, with keys and without, turn by turn. */
export async function run(): Promise<BenchRow[]> {
  const { createServer, defineAgent } = (await import(
    `${BUILT}index.js`
  )) as typeof import("../src/index.ts");
  const { RUNNER, JOBS } = (await import(`${BUILT}plugin.js`)) as typeof import("../src/plugin.ts");
  const agent = defineAgent({
    name: "Steps",
    version: "1.0.0",
    methods: {
      job_start: {
        fields: [],
        async run({ job }) {
          for (let n = 0; n < STEPS; n++) await job.step("step", () => ({ n, text: "x".repeat(2000) }));
        },
      },
    },
  });
  const folder = await mkdtemp(join(tmpdir(), "bench-encryption-"));
  const start = async (name: string, keys?: string[]) => {
    const service = createServer({
      agents: [agent],
      dataDir: join(folder, name),
      logLevel: "error",
      apiKey: "bench-key-of-this-service",
      ...(keys && { encryption: { keys } }),
    });
    await service.ready();
    return service;
  };
  const services = {
    plain: await start("plain"),
    sealed: await start("sealed", [randomBytes(32).toString("base64")]),
  };
  const took = {
    plain: { job: [] as number[], list: [] as number[] },
    sealed: { job: [] as number[], list: [] as number[] },
  };
  try {
    for (let turn = 0; turn < TURNS; turn++) {
      for (const name of turn % 2 === 0 ? (["plain", "sealed"] as const) : (["sealed", "plain"] as const)) {
        const service = services[name];
        const id = `job-${turn}`;
        const begun = performance.now();
        await service.get(RUNNER).start("steps", { job_context: context(id), job_fields: {} });
        while ((await service.get(JOBS).get(id)).status !== "completed")
          await new Promise((resolve) => setTimeout(resolve, 1));
        took[name].job.push((performance.now() - begun) / STEPS);
        const listed = performance.now();
        for (let n = 0; n < LISTS; n++) {
          const headers = { "x-api-key": "bench-key-of-this-service" };
          await (await service.fetch(new Request(`http://x/jobs/${id}/cases`, { headers }))).text();
        }
        took[name].list.push((performance.now() - listed) / LISTS);
      }
    }
  } finally {
    await Promise.all(Object.values(services).map((service) => service.close()));
    await rm(folder, { recursive: true, force: true });
  }
  const toRow = (name: string, read: "job" | "list"): BenchRow => {
    const [plain, sealed] = [median(took.plain[read])!, median(took.sealed[read])!];
    const ratio = sealed / plain;
    return {
      ...{ name, value: sealed, unit: "ms", baseline: { name: "without keys", value: plain }, ratio },
      ...{ target: `<= ${MOST}`, ok: ratio <= MOST },
    };
  };
  return [toRow("step of 2 KB in an encrypted store", "job"), toRow("read of a job's cases", "list")];
}

function context(job_id: string) {
  return {
    ...{ job_id, workspace_id: "w", started_by: "bench", started_at: new Date().toISOString() },
    ...{ mission_id: "m", mission_name: "m", mission_context: null, job_instructions: null },
  };
}

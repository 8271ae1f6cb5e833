import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BenchRow } from "./row.ts";

const STEPS = Number(process.env.SVC_BENCH_STEPS ?? 10_000);
/** Steps of one, then of the other: other load on the machine affects both. */
const STRETCH = 250;
const MOST = 1.2;

/** Milliseconds of each stretch. */
interface Took {
  readonly job: number[];
  readonly case: number[];
}

/** The built package; named so that the types need no build. */
const BUILT = new URL("../dist/", import.meta.url).href;

type Step = (name: string, fn: () => unknown) => Promise<unknown>;

/** The cost of a step of a case compared with a step of the job, on disk, as the history grows. */
export async function run(): Promise<BenchRow[]> {
  const { createServer, defineAgent } = (await import(
    `${BUILT}index.js`
  )) as typeof import("../src/index.ts");
  const { RUNNER } = (await import(`${BUILT}plugin.js`)) as typeof import("../src/plugin.ts");
  const dataDir = await mkdtemp(join(tmpdir(), "bench-cases-"));
  let finish: (took: Took) => void = () => {};
  const done = new Promise<Took>((resolve) => {
    finish = resolve;
  });
  const agent = defineAgent({
    name: "Steps",
    version: "1.0.0",
    methods: {
      job_start: {
        fields: [],
        async run({ job }) {
          const item = await job.openCase({ id: "one", name: "One" });
          const took: Took = { job: [], case: [] };
          for (let at = 0; at < STEPS; at += STRETCH) {
            const order = at % (2 * STRETCH) === 0 ? (["job", "case"] as const) : (["case", "job"] as const);
            for (const which of order) {
              const step: Step = which === "job" ? job.step.bind(job) : item.step.bind(item);
              const begun = performance.now();
              for (let n = 0; n < STRETCH; n++) await step("step", () => ({ n, text: "x".repeat(300) }));
              took[which].push(performance.now() - begun);
            }
          }
          finish(took);
        },
      },
    },
  });
  const service = createServer({ agents: [agent], dataDir, port: 0, logTo: () => {} });
  try {
    await service.ready();
    const job_context = {
      ...{ workspace_id: "w", job_id: "steps", started_by: "bench", started_at: "2026-01-31T09:30:00.000Z" },
      ...{ mission_id: "m", mission_name: "Mission", mission_context: null, job_instructions: null },
    };
    await service.get(RUNNER).start("steps", { job_context, job_fields: {} });
    const took = await done;
    const sum = (times: readonly number[]) => times.reduce((one, other) => one + other, 0);
    const growth = (times: readonly number[]) => sum(times.slice(-10)) / sum(times.slice(2, 12));
    const ratio = sum(took.case) / sum(took.job);
    const row = { unit: "µs" } as const;
    return [
      {
        ...{ ...row, name: `a step of one case, ${STEPS} of them`, value: (sum(took.case) / STEPS) * 1000 },
        ...{ baseline: { name: "a step of the job", value: (sum(took.job) / STEPS) * 1000 }, ratio },
        ...{ target: `<= ${MOST}`, ok: ratio <= MOST },
      },
      {
        ...{ name: "the last steps of the case beside its first", value: growth(took.case), unit: "times" },
        baseline: { name: "those of the job", value: growth(took.job) },
      },
    ];
  } finally {
    await service.close();
    await rm(dataDir, { recursive: true, force: true });
  }
}

import { AgentRegistry } from "../src/core/agents/registry.ts";
import type { StoredJob } from "../src/core/models/job.ts";
import type { RunEntry } from "../src/core/models/run-entry.ts";
import { checkJob, type OpenJob } from "../src/core/runs/check/check-job.ts";
import { makeJob } from "../src/core/store/contract/fixtures.ts";
import { defineAgent } from "../src/index.ts";
import type { BenchRow } from "./row.ts";

const JOBS = 10_000;
const CALLS = 30;

/** How long it takes to check whether many open jobs fit new code. */
export async function run(): Promise<BenchRow[]> {
  const agent = defineAgent({
    name: "Worker",
    version: "2.0.0",
    methods: {
      job_start: {
        async run({ job }) {
          for (let n = 0; n < CALLS; n++) await job.step("turn", () => n);
          return job.step("last", () => "done");
        },
      },
    },
  });
  const agents = new AgentRegistry([agent]);
  // As a service sends them.
  const lines = Array.from({ length: JOBS }, (_, at) => JSON.stringify(openJob(`job-${at}`)));
  const begun = performance.now();
  let fit = 0;
  for (const line of lines) {
    const { verdict } = await checkJob(agents, JSON.parse(line) as OpenJob, { env: {} });
    if (verdict === "fits") fit++;
  }
  const seconds = (performance.now() - begun) / 1000;
  if (fit !== JOBS) throw new Error(`${JOBS - fit} jobs were judged wrong`);
  const name = `${JOBS.toLocaleString("en")} open jobs of ${CALLS} calls checked`;
  return [{ name, value: seconds, unit: "s", target: "< 30", ok: seconds < 30 }];
}

function openJob(id: string): OpenJob {
  const job: StoredJob = makeJob(id, { agent_name: "worker", agent_version: "1.0.0", run_count: 1 });
  const at = job.created_at;
  const log: RunEntry[] = [
    { at, type: "status", from: "stopped", to: "in_progress", version: "1.0.0", code: "a" },
  ];
  for (let n = 0; n < CALLS; n++) {
    const made = n === 0 ? 0 : log.length;
    log.push({
      at,
      type: "call",
      call: "step",
      name: "turn",
      n,
      position: n,
      made,
      started_at: at,
      result: n,
    });
  }
  return { job, cases: [], log };
}

// A job of many steps, each on disk before the next one starts: says when the function of each was called.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer, defineAgent } from "../../dist/index.js";
import { RUNNER } from "../../dist/plugin.js";

const count = Number(process.argv[2]);
const dataDir = mkdtempSync(join(tmpdir(), "bench-curve-"));
const times = [];
const agent = defineAgent({
  name: "Curve",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: [],
      async run({ job }) {
        for (let n = 0; n < count; n++) {
          await job.step("step", () => {
            times.push(performance.now());
            return { n, text: "what a step gives" };
          });
        }
        process.send(times, () => end());
      },
    },
  },
});
const service = createServer({ agents: [agent], dataDir, port: 0, logTo: () => {} });
await service.ready();
const started = { started_by: "bench", started_at: "2026-01-31T09:30:00.000Z" };
const mission = { mission_id: "m", mission_name: "Mission", mission_context: null, job_instructions: null };
await service.get(RUNNER).start("curve", {
  job_context: { workspace_id: "w", job_id: "curve", ...started, ...mission },
  job_fields: {},
});

async function end() {
  await service.close();
  rmSync(dataDir, { recursive: true, force: true });
}

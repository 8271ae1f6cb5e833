// What the services under measure have in common.
import { createServer } from "../../dist/index.js";
import { RUNNER } from "../../dist/plugin.js";

/** A service that nobody else uses. */
export function makeService(options) {
  return createServer({ port: 0, apiKey: "key-of-this-benchmark", logTo: () => {}, ...options });
}

/** Starts so many jobs of an agent, as many at the same time as there are callers; `each` is called after each start. */
export async function startJobs(service, { agent, count, callers, prefix = "job", each = () => {} }) {
  const runner = service.get(RUNNER);
  let started = 0;
  const startSome = async () => {
    while (started < count) {
      const id = `${prefix}-${++started}`;
      const job_context = {
        ...{ workspace_id: "w", job_id: id, started_by: "bench", started_at: new Date().toISOString() },
        ...{ mission_id: "m", mission_name: "Mission", mission_context: null, job_instructions: null },
      };
      await runner.start(agent, { job_context, job_fields: {} });
      await each(id, started);
    }
  };
  await Promise.all(Array.from({ length: callers }, startSome));
}

/** Bytes in use after a collection, and of the whole process. */
export function readMemory() {
  globalThis.gc();
  const { heapUsed, arrayBuffers, rss } = process.memoryUsage();
  return { heap: heapUsed + arrayBuffers, rss };
}

/** Reports what was measured, and closes the service once that has arrived. */
export function tell(service, measured) {
  process.on("message", async () => {
    await service.close();
    process.exit(0);
  });
  process.send(measured);
}

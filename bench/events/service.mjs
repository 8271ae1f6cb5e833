// A service with commands to fill its outbox, to deliver, to run jobs, and to report its memory.
import { randomUUID } from "node:crypto";
import { createServer, defineAgent, events } from "../../dist/index.js";
import { EVENTS, JOBS, RUNNER, STORE } from "../../dist/plugin.js";

const { dataDir, url, concurrency } = JSON.parse(process.argv[2]);
const agent = defineAgent({
  name: "Worker",
  version: "1.0.0",
  methods: {
    job_start: {
      async run({ job }) {
        for (let n = 0; n < 20; n++)
          await job.step(`step ${n}`, () => new Promise((done) => setTimeout(done, 5)));
        return { message: "done" };
      },
    },
  },
});
const account = url && { workspace_id: "bench", api_key: "key-of-this-benchmark", api_url: url };
const options = { concurrency, breaker: { initial: 0.1, max: 0.2 }, backoff: { initial: 0.1, max: 0.2 } };
const service = createServer({
  agents: [agent],
  apiKey: "key-of-this-benchmark",
  account,
  dataDir,
  port: 0,
  logTo: () => {},
  plugins: [events(options)],
});
await service.ready();

const event = (n) => ({
  source: { job: `job-${n % 200}`, case: "case" },
  type: "agent.case.update",
  object_type: "case",
  details: {
    index: n,
    name: "step",
    error: null,
    cost: 0.01,
    payload: { text: "x".repeat(200) },
    is_final: false,
  },
});

const commands = {
  async fill({ count }) {
    for (let n = 0; n < count; n += 200) {
      await service.get(STORE).transaction(async (tx) => {
        for (let i = n; i < Math.min(n + 200, count); i++) {
          await service.get(EVENTS).write(tx, event(i), { stream: `job-${i % 200}` });
        }
      });
    }
  },
  // The same bytes and headers by fetch alone, with the same concurrency.
  async bare({ count }) {
    let next = 0;
    const work = async () => {
      for (let n = next++; n < count; n = next++) {
        const { type, ...rest } = event(n);
        const answer = await fetch(`${url}/w/bench/api/v1/ctrl-events/`, {
          method: "POST",
          headers: {
            authorization: "Api-Key key-of-this-benchmark",
            "content-type": "application/json",
            workspace: "bench",
            "idempotency-key": randomUUID(),
          },
          body: JSON.stringify({ ...rest, workspace: "bench", event_type: type }),
        });
        if (!answer.ok) throw new Error(`Event ${n} got status ${answer.status}`);
        await answer.text();
      }
    };
    await Promise.all(Array.from({ length: concurrency }, work));
  },
  async jobs({ count, prefix }) {
    const begun = performance.now();
    for (let n = 0; n < count; n++) {
      const job_id = `${prefix}-${n}`;
      const job_context = {
        workspace_id: "bench",
        job_id,
        started_by: "bench",
        started_at: new Date().toISOString(),
        mission_id: "mission",
        mission_name: "Mission",
        mission_context: null,
        job_instructions: null,
      };
      await service.get(RUNNER).start("worker", { job_context, job_fields: {} });
    }
    for (let n = 0; n < count; n++) {
      while ((await service.get(JOBS).get(`${prefix}-${n}`)).status !== "completed") {
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    }
    return { milliseconds: performance.now() - begun };
  },
  async memory() {
    await new Promise((resolve) => setTimeout(resolve, 1500));
    globalThis.gc?.();
    await new Promise((resolve) => setTimeout(resolve, 200));
    return { megabytes: process.memoryUsage.rss() / 1024 / 1024 };
  },
  async close() {
    await service.close();
  },
};
process.on("message", async ({ command, ...input }) => {
  const result = await commands[command](input);
  process.send({ done: command, ...result });
});
process.send({ ready: true });

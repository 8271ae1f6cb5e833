// BullMQ behind the same kind of HTTP route: a job of three steps, each stored as progress, and the result waited for.

import { Queue, QueueEvents, Worker } from "bullmq";
import { H3, readBody, serve } from "h3";

const connection = { host: "127.0.0.1", port: Number(process.argv[2]), maxRetriesPerRequest: null };
const queue = new Queue("three", { connection });
const events = new QueueEvents("three", { connection });
const worker = new Worker(
  "three",
  async (job) => {
    const one = job.data.n + 1;
    await job.updateProgress({ one });
    const two = one * 2;
    await job.updateProgress({ one, two });
    const result = two - 1;
    await job.updateProgress({ one, two, result });
    return { result };
  },
  { connection, concurrency: 64 },
);
// Each job that is waited for listens on both.
for (const emitter of [queue, events]) emitter.setMaxListeners(0);
await Promise.all([queue.waitUntilReady(), events.waitUntilReady(), worker.waitUntilReady()]);

const app = new H3({ silent: true });
app.post("/jobs", async (event) => {
  const { id, n } = await readBody(event);
  const job = await queue.add("three", { n }, { jobId: id });
  return { id, result: await job.waitUntilFinished(events, 60_000) };
});
const server = serve(app, { port: 0, hostname: "127.0.0.1", silent: true, gracefulShutdown: false });
await server.ready();

process.on("message", async (message) => {
  if (message !== "end") return;
  await Promise.all([worker.close(), events.close(), queue.close()]);
  process.exit(0);
});
process.send({ url: server.url });

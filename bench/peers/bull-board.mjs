// bull-board over a BullMQ queue with as many ended jobs as our store holds, a tenth of them failed: says how long
// the request that its page makes for its list takes.

import { createBullBoard } from "@bull-board/api";
import { BullMQAdapter } from "@bull-board/api/bullMQAdapter";
import { HonoAdapter } from "@bull-board/hono";
import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";

const [port, count] = process.argv.slice(2).map(Number);
const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null };
const queue = new Queue("quick", { connection });
await fill(count);

const adapter = new HonoAdapter(() => (c) => c.notFound());
createBullBoard({ queues: [new BullMQAdapter(queue)], serverAdapter: adapter });
const board = adapter.registerPlugin();

/** One job of each end is run; the others are copies of it, since to run them all takes minutes. */
async function fill(count) {
  const worker = new Worker(
    queue.name,
    async (job) => {
      if (job.data.index === 0) throw new Error("it broke");
      return { message: "done" };
    },
    { connection },
  );
  const [failed, completed] = await queue.addBulk([toJob(0), toJob(1)]);
  while (!(await failed.isFailed()) || !(await completed.isCompleted())) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await worker.close();

  const redis = new Redis(connection);
  const models = {
    failed: await redis.hgetall(queue.toKey(failed.id)),
    completed: await redis.hgetall(queue.toKey(completed.id)),
  };
  const begun = Date.now() - count * 1000;
  for (let from = 2; from < count; from += 1000) {
    const batch = redis.pipeline();
    for (let index = from; index < Math.min(from + 1000, count); index++) {
      const state = index % 10 === 0 ? "failed" : "completed";
      const { name, data } = toJob(index);
      const at = begun + index * 1000;
      const times = { timestamp: at, processedOn: at, finishedOn: at };
      const id = String(index + 1);
      batch.hset(queue.toKey(id), { ...models[state], ...times, name, data: JSON.stringify(data) });
      batch.zadd(queue.toKey(state), at, id);
    }
    await batch.exec();
  }
  await redis.quit();
  const counts = await queue.getJobCounts("completed", "failed");
  if (counts.completed + counts.failed !== count) throw new Error(`${JSON.stringify(counts)} jobs are there`);
}

function toJob(index) {
  return { name: `name-${index}`, data: { index, mission: "Bench" } };
}

process.on("message", async (path) => {
  if (path === "end") {
    await queue.close();
    process.exit(0);
  }
  const begun = performance.now();
  const response = await board.request(path);
  const text = await response.text();
  process.send({
    milliseconds: performance.now() - begun,
    status: response.status,
    rows: JSON.parse(text).queues[0].jobs.length,
  });
});
process.send("ready");

import { defineAgent } from "agent-control-service";
import { testServer } from "agent-control-service/testing";

/** Cases of the job, those of them that are done, and milliseconds between two steps of the others. */
const CASES = 1000;
const DONE = 700;
const PAUSE = 100;

/** A job with 1,000 cases that runs: 700 are done, and the others have a step ten times a second, together. */
export async function fillLargeJob(dataDir: string) {
  let isFilled = () => {};
  const filled = new Promise<void>((done) => {
    isFilled = done;
  });
  const large = defineAgent({
    name: "Large",
    version: "1.0.0",
    methods: {
      job_start: {
        run: async ({ job, signal }) => {
          const items = [];
          for (let n = 0; n < CASES; n++) {
            const item = await job.openCase({ id: `${job.id}-${n}`, name: `Order HL-${n}` });
            await item.step("read", () => ({ n, text: "a line of an order".repeat(5) }));
            await item.step("check", () => ({ ok: true }));
            if (n < DONE) await item.close({ n });
            else items.push(item);
          }
          isFilled();
          for (let n = 0; !signal.aborted; n++) {
            await items[n % items.length]!.step("poll", () => n, { key: `poll ${n}` });
            await new Promise((done) => setTimeout(done, PAUSE));
          }
        },
      },
    },
  });
  const server = await testServer({ agents: [large], dataDir, store: undefined });
  const id = "large-1";
  await server.request("/agents/large/jobs", { json: { job_context: { job_id: id } } });
  await filled;
  return {
    ...{ id, url: server.url, headers: { authorization: `Bearer ${server.key}` } },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

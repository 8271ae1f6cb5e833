/** A controller file for tests that end the process: it tells each thing it really does in a file of its own. */
export const CONTROLLER = `
import { appendFileSync } from "node:fs";
import { createServer, defineAgent } from "agent-control-service";

const did = (what) => appendFileSync("did.log", what + "\\n");
const pause = (ms, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, ms);
  signal?.addEventListener("abort", () => { clearTimeout(timer); reject(signal.reason); });
});
const agent = (name, run, more = {}) => defineAgent({
  name, version: "1.0.0", ...more,
  methods: {
    job_start: { fields: [{ name: "count", field_type: "IntegerField", default: 1 }, { name: "pause", field_type: "IntegerField", default: 0 }], run },
    ...more.methods,
  },
});

const counter = agent("Counter", async ({ job, fields }) => {
  let sum = 0;
  for (let n = 1; n <= fields.count; n++) {
    sum += await job.step("step " + n, async ({ attempt }) => {
      did("step " + n + " attempt " + attempt);
      if (n === fields.pause) await pause(60_000);
      return n;
    });
  }
  return { sum };
});

const asker = agent("Asker", async ({ job, fields }) => {
  const answers = await Promise.all(Array.from({ length: fields.count }, async (_, n) => {
    const item = await job.openCase({ id: "q" + n, name: "Question " + n });
    await item.step("prepare", () => did("prepare " + n));
    const answer = await item.ask({ question: "What is " + n + "?", fields: [{ name: "text", required: true }] });
    await item.close(answer);
    return answer.text;
  }));
  return { answers };
}, { methods: { human_answer: { run: ({ answer }) => did("notified " + answer.text) } } });

const slow = async ({ job, signal }) => {
  await job.step("first", () => did("first"));
  const item = await job.openCase({ id: job.id + "-case", name: "Case" });
  await item.step("second", async (step) => { did("second " + step.attempt); await pause(1500, step.signal); });
  await item.close();
  return "done";
};

const sleeper = agent("Sleeper", async ({ job }) => {
  await job.sleep("2s");
  return "slept";
});

export default createServer({
  port: 0,
  agents: [
    counter, asker, sleeper,
    agent("Resumer", slow), agent("Restarter", slow, { onInterruption: "restart" }), agent("Failer", slow, { onInterruption: "fail" }),
  ].filter((one) => !(process.env.WITHOUT ?? "").split(",").includes(one.name)),
});
`;

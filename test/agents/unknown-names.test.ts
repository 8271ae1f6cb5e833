import { type AgentDefinition, defineAgent, defineChat, type JobHandle } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { expect, it, onTestFinished } from "vitest";

const run = () => null;

/** An agent with one name too many, at a path. */
const AGENTS: readonly [path: string, agent: object, problem: string][] = [
  ["an agent", { onInteruption: "fail" }, "onInteruption is not known: did you mean onInterruption?"],
  [
    "methods",
    { methods: { job_start: { run }, job_stat: { run } } },
    "methods.job_stat is not known: did you mean job_start? Put other methods in methods.custom",
  ],
  [
    "a method",
    { methods: { job_start: { run, timeot: 5 } } },
    "methods.job_start.timeot is not known: did you mean timeout?",
  ],
  [
    "a custom method",
    { methods: { job_start: { run }, custom: { find: { run, field: [] } } } },
    "methods.custom.find.field is not known: did you mean fields?",
  ],
  [
    "a field",
    { methods: { job_start: { run, fields: [{ name: "n", requird: true }] } } },
    "methods.job_start.fields[0].requird is not known: did you mean required?",
  ],
  [
    "a node",
    { methods: { job_start: { run, nodes: [{ name: "n", type: "info", descripton: "x" }] } } },
    "methods.job_start.nodes[0].descripton is not known: did you mean description?",
  ],
  [
    "a parameter",
    { parameters: [{ name: "KEY", is_secrt: true }] },
    "parameters[0].is_secrt is not known: did you mean is_secret?",
  ],
  [
    "concurrency",
    { concurrency: { limit: 1, scop: "job" } },
    "concurrency.scop is not known: did you mean scope?",
  ],
  [
    "a rate",
    { rateLimit: { limit: 1, period: "1h", ky: "a" } },
    "rateLimit.ky is not known: did you mean key?",
  ],
  ["a budget", { budget: { month: 1, refus: true } }, "budget.refus is not known: did you mean refuse?"],
  [
    "instructions",
    { instructions: { max_cots: 1 } },
    "instructions.max_cots is not known: did you mean max_cost?",
  ],
  ["isolation", { isolate: { memry: "1gb" } }, "isolate.memry is not known: did you mean memory?"],
  [
    "retention",
    { retention: { complete: "1d" } },
    "retention.complete is not known: did you mean completed?",
  ],
];

it.each(AGENTS)(
  "%s with a name that is not known is refused, with the one that was meant",
  async (_, extra, problem) => {
    const agent = {
      name: "Wrong",
      version: "1",
      methods: { job_start: { run } },
      ...extra,
    } as AgentDefinition;

    await expect(testServer({ agents: [agent] })).rejects.toThrow(`Agent "Wrong": ${problem}`);
  },
);

it("a chat with a name that is not known is refused, with the one that was meant", () => {
  const chat = { name: "Wrong", version: "1", reply: () => "", idel: "1d" };

  expect(() => defineChat(chat)).toThrow('Agent "Wrong": idel is not known: did you mean idle?');
  expect(() => defineChat({ ...chat, idel: undefined, methods: {} } as never)).toThrow("idel is not known");
});

const limited = defineAgent({
  name: "Limited",
  version: "1",
  methods: { job_start: { run: () => "unlimited" } },
});

it.each([
  [{ max_cots: 1 }, "instructions: max_cots is not known: did you mean max_cost?"],
  [{ max_cost: "1" }, "instructions: max_cost must be"],
  [[1], "instructions: must be an object"],
])("a child with the limits %j does not start without them", async (instructions, problem) => {
  const parent = defineAgent({
    name: "Parent",
    version: "1",
    methods: {
      job_start: {
        run: async ({ job }: { job: JobHandle }) => {
          const child = await job.start(limited, {}, { instructions: instructions as never });
          return child.result();
        },
      },
    },
  });
  const server = await testServer({ agents: [parent, limited] });
  onTestFinished(() => server[Symbol.asyncDispose]());

  const { job } = await server.run("parent");

  expect(job).toMatchObject({ status: "failed", error: expect.stringContaining(problem) });
});

it.each([
  [{ instructions: { max_cots: 1 } }, "instructions.max_cots is not known: did you mean max_cost?"],
  [{ overlp: "skip" }, "overlp is not known: did you mean overlap?"],
])("a schedule with %j is refused", async (extra, problem) => {
  const schedule = { cron: "0 * * * *", agent: "limited", ...(extra as object) };

  await expect(testServer({ agents: [limited], schedules: [schedule] })).rejects.toThrow(
    `Cannot use option schedules: [0].${problem}`,
  );
});

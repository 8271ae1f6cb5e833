import { createServer, defineAgent } from "agent-control-service";
import { JOBS } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { signIn } from "../admin/_sign-in.ts";

/** Of five documents, the second and the fourth are bad; each costs 1. */
const sorter = defineAgent({
  name: "Sorter",
  version: "1.0.0",
  instructions: { stop_on_error: false, max_cost: 5 },
  methods: {
    job_start: {
      async run({ job }) {
        for (const n of [1, 2, 3, 4, 5]) {
          const item = await job.openCase({ id: `document-${n}`, name: `Document ${n}` });
          await item.step("read", () => n, { cost: 1 });
          await (n % 2 === 0 ? item.fail("unreadable") : item.close());
        }
        return "sorted";
      },
    },
  },
});

const parent = defineAgent({
  name: "Parent",
  version: "1.0.0",
  methods: {
    job_start: {
      run: async ({ job }) => (await job.start(sorter, {}, { instructions: { max_cases: 9 } })).result(),
    },
  },
});

const NONE = { max_cases: null, max_duration: null, job_start_time: null, stop_on_warning: false };

it.each([
  ["of the agent where the request has none", undefined, { max_cost: 5, stop_on_error: false }, "completed"],
  [
    "of the agent where the request names others",
    { max_cases: 9 },
    { max_cost: 5, max_cases: 9, stop_on_error: false },
    "completed",
  ],
  [
    "lower where the request asks for less",
    { max_cost: 3 },
    { max_cost: 3, stop_on_error: false },
    "max_cost",
  ],
  [
    "not higher where the request asks for more",
    { max_cost: 50 },
    { max_cost: 5, stop_on_error: false },
    "completed",
  ],
  [
    "about failed cases as the request says",
    { stop_on_error: true },
    { max_cost: 5, stop_on_error: true },
    "stop_on_error",
  ],
])("the limits of a job are %s", async (_behavior, job_instructions, expected, end) => {
  await using server = await testServer({ agents: [sorter] });
  const context = { job_context: { job_id: "job-1", ...(job_instructions && { job_instructions }) } };

  const first = await server.request("/agents/sorter/jobs", {
    json: context,
    headers: { prefer: "wait=30" },
  });
  const again = await server.request("/agents/sorter/jobs", { json: context });
  const { status, stop_reason, job_context } = await server.service.get(JOBS).get("job-1");

  expect([first.status < 300, again.status < 300]).toEqual([true, true]);
  expect(job_context.job_instructions).toEqual({ ...NONE, ...expected });
  expect(stop_reason ?? status).toBe(end);
});

it("a child has the limits of its agent, and those of its parent's call within them", async () => {
  await using server = await testServer({ agents: [sorter, parent] });

  await server.run(parent);
  const { items } = await server.service.get(JOBS).list();
  const children = items.filter((job) => job.agent_name === "sorter");

  expect(children.map(({ job_context }) => job_context.job_instructions)).toEqual([
    { ...NONE, max_cost: 5, max_cases: 9, stop_on_error: false },
  ]);
});

it("the form that starts a job in the admin interface begins with the limits of the agent", async () => {
  await using server = await testServer({ agents: [sorter] });
  const cookie = await signIn(server, "Ada");

  const page = await server.request("/admin/agents/sorter/start", {
    headers: { cookie, accept: "text/html" },
  });
  const form = await page.text();

  expect(form).toMatch(/name="f\.max_cost"[^>]*value="5"/);
  expect(form).toContain('name="f.stop_on_error"');
  expect(form).not.toMatch(/name="f\.stop_on_error"[^>]*checked/);
});

it.each([
  [{ max_cots: 5 }, "instructions.max_cots is not known: did you mean max_cost?"],
  [{ max_cost: -1 }, "instructions must have a number of at least 0 as max_cost"],
  [{ max_cases: 1.5 }, "instructions must have a whole number of at least 0 as max_cases"],
  [{ stop_on_error: "no" }, "instructions must have true or false as stop_on_error"],
  [5, "instructions must be an object such as"],
])("an agent with the limits %j is refused", (instructions, problem) => {
  const agent = { ...sorter, instructions: instructions as never };

  expect(() => createServer({ agents: [agent] })).toThrow(`Agent "Sorter": ${problem}`);
});

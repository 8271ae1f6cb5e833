import { defineAgent } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { JOBS } from "../../src/core/service/tokens.ts";
import { mcp, mcpTools } from "../../src/mcp.ts";
import type { Address } from "./_client.ts";

const adder = defineAgent({
  name: "Adder",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: [
        { name: "a", field_type: "IntegerField", required: true },
        { name: "b", field_type: "IntegerField", required: true },
      ],
      run: ({ fields }) => ({ sum: Number(fields.a) + Number(fields.b) }),
    },
  },
});
const remote = () => testServer({ agents: [adder], plugins: [mcp()] });
const sumOf = ({ text }: { readonly text: string }) => (JSON.parse(text) as { sum: number }).sum;
const toolsOf = ({ url, key }: Address, more: { fetch?: typeof fetch } = {}) =>
  mcpTools(new URL("/mcp", url), { headers: () => ({ "x-api-key": key }), ...more });

it("a recorded call of a tool is not made again when its job resumes", async () => {
  await using there = await remote();
  const caller = defineAgent({
    name: "Caller",
    version: "1.0.0",
    methods: {
      job_start: {
        run: async ({ job }) => {
          const tools = await toolsOf(there).list(job);
          const add = tools.find(({ name }) => name === "adder")!;
          const item = await job.openCase({ id: "sum", name: "Sum" });
          const first = sumOf(await add.call({ a: 1, b: 2 }));
          await item.ask({ key: "more", question: "More?", fields: [] });
          const second = sumOf(await toolsOf(there).call(item, "adder", { a: first, b: 10 }));
          await item.close({ second });
          return { second, schema: add.inputSchema };
        },
      },
    },
  });
  await using here = await testServer({ agents: [caller] });
  const started = await here.request("/agents/caller/jobs", { json: {} });
  const { id } = (await started.json()) as { id: string };
  const job = () => here.service.get(JOBS).get(id);
  await expect.poll(job).toMatchObject({ open_questions: 1 });

  await here.crash();
  await expect
    .poll(async () => (await here.request(`/jobs/${id}/cases/sum/update`, { json: { answer: {} } })).status)
    .toBe(200);
  await expect.poll(job).toMatchObject({ status: "completed" });

  expect(await job()).toMatchObject({
    result: { second: 13, schema: { type: "object", required: ["a", "b"] } },
  });
  expect((await there.service.get(JOBS).list()).total).toBe(2);
});

it("a call whose answer was lost is repeated with its key, so that the server does it once", async () => {
  await using there = await remote();
  let lost = 0;
  const losing: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    if (!String(init?.body).includes('"tools/call"') || lost++ > 0) return response;
    throw new Error("the connection ended");
  };
  const caller = defineAgent({
    name: "Caller",
    version: "1.0.0",
    methods: {
      job_start: {
        run: async ({ job }) => {
          const options = { retries: 1, backoff: { initial: 0 } };
          const result = await toolsOf(there, { fetch: losing }).call(job, "adder", { a: 1, b: 2 }, options);
          return sumOf(result);
        },
      },
    },
  });
  await using here = await testServer({ agents: [caller] });

  const { result } = await here.run(caller);

  expect(result).toBe(3);
  expect(lost).toBe(2);
  expect((await there.service.get(JOBS).list()).total).toBe(1);
});

it("an error that the tool reports is its result, and a tool that does not exist is not tried again", async () => {
  await using there = await remote();
  let calls = 0;
  const counting: typeof fetch = (input, init) => {
    if (String(init?.body).includes('"tools/call"')) calls++;
    return fetch(input, init);
  };
  const caller = defineAgent({
    name: "Caller",
    version: "1.0.0",
    methods: {
      job_start: {
        run: async ({ job }) => {
          const tools = toolsOf(there, { fetch: counting });
          const wrong = await tools.call(job, "adder", { a: 1 });
          const missing = await tools
            .call(job, "nothing", {}, { retries: 3 })
            .catch((error: Error) => error.message);
          return { wrong, missing };
        },
      },
    },
  });
  await using here = await testServer({ agents: [caller] });

  const { result } = await here.run(caller);

  expect(result).toMatchObject({
    wrong: { isError: true, text: expect.stringContaining("b is required") },
    missing: expect.stringContaining('Unknown agent "nothing"'),
  });
  expect(calls).toBe(2);
});

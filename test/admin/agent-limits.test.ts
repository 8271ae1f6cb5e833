import { defineAgent, defineChat } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { afterAll, beforeAll, expect, it } from "vitest";

const sorter = defineAgent({
  name: "Sorter",
  version: "1.0.0",
  instructions: { stop_on_error: false, max_cost: 5, max_duration: 90 },
  methods: { job_start: { fields: [], run: () => "sorted" } },
});
const free = defineAgent({
  name: "Free",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({
        pages: v.optional(v.pipe(v.array(v.object({ n: v.number() })), v.description("Pages to read")), []),
      }),
      run: () => "done",
    },
  },
});
const talker = defineChat({
  name: "Talker",
  version: "1.0.0",
  reply: ({ message }) => `You said ${message}`,
});

let server: TestServer;
beforeAll(async () => {
  server = await testServer({ agents: [sorter, free, talker] });
});
afterAll(() => server[Symbol.asyncDispose]());

async function read(path: string): Promise<string> {
  const response = await server.request(`/admin/${path}`, { headers: { accept: "text/html" } });
  expect(response.status).toBe(200);
  return response.text();
}

it("the page of an agent has the limits of its jobs", async () => {
  const [own, none] = [await read("agents/sorter"), await read("agents/free")];

  expect(own).toContain("cost 5, duration 1 min 30 s, continues when a case fails");
  expect(none).not.toContain("Limits of a job");
});

it("the form of a job separates what an input is from how it is written", async () => {
  expect(await read("agents/free/start")).toContain("Pages to read. JSON.");
});

it("the page of a thread says that it waits for a message", async () => {
  await server.request("/agents/talker/jobs", {
    json: { job_context: { job_id: "thread" }, job_fields: { message: "hi" } },
  });

  await expect.poll(() => read("jobs/thread")).toContain("Waiting for a message");
});

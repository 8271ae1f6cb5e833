// @area core
import { defineAgent, type Job } from "agent-control-service";
import { describe, expect, it } from "vitest";
import { openStream } from "../admin/_events.ts";
import { EventReader } from "../http/_event-reader.ts";
import { SharedStore, startInstances } from "./_instances.ts";

/** An agent whose jobs make a step and wait until they are let go. */
function waitingAgent() {
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const agent = defineAgent({
    name: "Waiter",
    version: "1.0.0",
    methods: {
      job_start: {
        run: async ({ job }) => {
          await job.step("first", () => 1);
          await released;
          return job.step("second", () => 2);
        },
      },
    },
  });
  return { agent, release };
}

describe.each([
  ["hints", true],
  ["the poll alone", false],
])("by %s, an instance that does not run a job", (_, hints) => {
  const begin = async () => {
    const { agent, release } = waitingAgent();
    const options = { agents: [agent] };
    const [one, other] = await startInstances([options, options], new SharedStore({ hints }));
    const start = (server: typeof one, headers = {}) =>
      server.request("/agents/waiter/jobs", { json: { job_context: { job_id: "job-1" } }, headers });
    await start(one);
    return { one, other, start, release };
  };

  it("learns of its end, its log, and its changes", async () => {
    const { other, start, release } = await begin();
    await using stream = new EventReader(await other.request("/jobs/job-1/stream"));
    using page = await openStream(`${other.url}/admin/api/live`, { "x-api-key": other.key });
    expect((await page.next()).event).toBe("hello");
    const ended = start(other, { prefer: "wait=60" });
    const seen = await stream.take(3);

    release();

    expect((await (await ended).json()) as Job).toMatchObject({ status: "completed", result: 2 });
    const events = await stream.rest();
    // Its steps emit nothing.
    expect(seen.concat(events).filter(({ event }) => event === "chunks")).toMatchObject([
      { data: { available: false, message: expect.stringContaining("another instance") } },
      { data: { available: true } },
    ]);
    expect(events.at(-1)).toMatchObject({ event: "end", data: { status: "completed" } });
    const change = (await page.next()).data as { topics: string[]; jobs: string[]; more: boolean };
    expect(change.topics).toContain("jobs");
    expect(change.more || change.jobs.includes("job-1")).toBe(true);
  });
});

it("without other instances no hints are sent", async () => {
  const hinted: string[] = [];
  const store = new SharedStore();
  const { agent, release } = waitingAgent();
  release();
  const [alone] = await startInstances([
    {
      agents: [agent],
      store: async (context) => {
        const inner = await store.open(context);
        return new Proxy(inner, {
          get: (_, name) => {
            if (name === "isShared") return undefined;
            if (name === "hints") return { tell: (topic: string) => hinted.push(topic), on: () => () => {} };
            return Reflect.get(inner, name);
          },
        });
      },
    },
  ]);

  await alone.run("waiter");

  expect(hinted).toEqual([]);
});

import { LOGGER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { greeter } from "../_setup.ts";
import { openStream } from "./_events.ts";
import { seedCase, seedJob } from "./_seed.ts";

const start = () => testServer({ agents: [greeter] });

interface Change {
  tick: number;
  topics: string[];
  jobs: string[];
  cases: string[];
  added: { jobs: number; cases: number };
  inbox?: number;
  spoken: string;
}

it("an open page is notified of changes, batched into few messages", async () => {
  await using server = await start();
  using stream = await openStream(`${server.url}/admin/api/live`, { "x-api-key": server.key });

  const hello = await stream.next();
  await seedJob(server.service, { id: "a", status: "in_progress" });
  await seedCase(server.service, { job: "a", ref: "a-1", question: "Pay?" });
  const change = (await stream.next()).data as Change;

  expect(hello.event).toBe("hello");
  expect(change.tick).toBeGreaterThan(hello.data as number);
  expect(change).toMatchObject({ jobs: ["a"], cases: ["a-1"], added: { jobs: 1, cases: 1 }, inbox: 1 });
  expect(change.spoken).toBe("1 job waiting for an answer, 1 job started");
});

it("a job's page is notified of that job only", async () => {
  await using server = await start();
  await seedJob(server.service, { id: "a", status: "in_progress" });
  using stream = await openStream(`${server.url}/admin/api/live?job=a`, { "x-api-key": server.key });
  await stream.next();

  await seedJob(server.service, { id: "b", status: "completed" });
  // Distinguished by messages, not by time: the one about b is over when the one about a is sent.
  await new Promise((resolve) => setTimeout(resolve, 1300));
  await seedCase(server.service, { job: "a", ref: "a-1" });
  const change = (await stream.next()).data as Change;

  expect(change.jobs).toEqual(["a"]);
});

it("a page that reconnects is notified that it missed changes", async () => {
  await using server = await start();
  const first = await openStream(`${server.url}/admin/api/live`, { "x-api-key": server.key });
  const before = (await first.next()).data;
  first.close();
  await seedJob(server.service, { id: "a" });

  using second = await openStream(`${server.url}/admin/api/live`, { "x-api-key": server.key });
  const after = (await second.next()).data;

  expect(after).not.toBe(before);
});

it("the stream of changes ends when the service closes", async () => {
  const server = await start();
  using stream = await openStream(`${server.url}/admin/api/live`, { "x-api-key": server.key });
  await stream.next();

  await server[Symbol.asyncDispose]();

  await expect(stream.next()).rejects.toThrow();
});

it("the console replays the last lines and follows new ones, by level, text and job", async () => {
  await using server = await start();
  const log = server.service.get(LOGGER);
  log.info("one", { job_id: "a" });
  log.warn("two", { job_id: "b" });
  const lines = async (query: string) => {
    const response = await server.request(`/admin/api/console?${query}`);
    return ((await response.json()) as { items: { message: string }[] }).items.map((line) => line.message);
  };

  using stream = await openStream(`${server.url}/admin/api/console/stream?level=warn`, {
    "x-api-key": server.key,
  });
  const hello = await stream.next();
  const replayed = await stream.next();
  log.info("three", { job_id: "b" });
  log.error("four", { job_id: "a", error: new Error("it broke") });
  const followed = await stream.next();

  expect(hello.event).toBe("hello");
  expect([replayed.data, followed.data]).toMatchObject([
    { message: "two" },
    { message: "four", level: "error" },
  ]);
  expect((followed.data as { fields: string }).fields).toContain("it broke");
  expect(await lines("level=warn")).toEqual(["two", "four"]);
  expect(await lines("search=THREE")).toEqual(["three"]);
  expect(await lines("job=a")).toEqual(["one", "four"]);
});

it("the console keeps only its last lines, and can be downloaded", async () => {
  await using server = await start();
  const log = server.service.get(LOGGER);
  for (let index = 0; index < 3000; index++) log.info(`line ${index}`);

  const download = await (await server.request("/admin/api/console/download")).text();
  const lines = download
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { message: string });

  expect(lines.length).toBeLessThanOrEqual(2500);
  expect(lines.at(-1)?.message).toBe("line 2999");
});

it("lines missed since a number are replayed, and dropped lines are reported", async () => {
  await using server = await start();
  const log = server.service.get(LOGGER);
  for (let index = 0; index < 3000; index++) log.info(`line ${index}`);

  using stream = await openStream(`${server.url}/admin/api/console/stream`, {
    "x-api-key": server.key,
    "last-event-id": "5",
  });
  await stream.next();
  const gap = await stream.next();
  const line = await stream.next();

  expect(gap.event).toBe("gap");
  expect(gap.data as number).toBeGreaterThan(100);
  expect(line.event).toBe("line");
});

import { defineChat, NonRetryableError } from "agent-control-service";
import { client } from "agent-control-service/client";
import { CASES, JOBS, RUNNER } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import OpenAI from "openai";
import { beforeEach, expect, it } from "vitest";

let isAway = false;
let waits: Promise<unknown> = Promise.resolve();
const echo = defineChat({
  name: "Echo",
  version: "1.0.0",
  reply: ({ messages, turn }) =>
    turn.step("model", async () => {
      if (isAway) throw new NonRetryableError("The model is away");
      await waits;
      return `heard ${messages.map(({ role, content }) => `${role}: ${content}`).join(", ")}`;
    }),
});

let server: TestServer;
beforeEach(async () => {
  [isAway, waits] = [false, Promise.resolve()];
  server = await testServer({ agents: [echo] });
  return () => server[Symbol.asyncDispose]();
});

const post = async (path: string, body: object): Promise<string> =>
  (await server.request(path, { method: "POST", json: body })).text();
const answers = async (job_id: string) => {
  const { items } = await server.service.get(CASES).list({ where: { job_id }, sort: "created_at" });
  return items.map(({ final_delivery }) => (final_delivery as { answer?: string } | null)?.answer);
};
/** A thread with two answers. */
async function talk(): Promise<string> {
  const { id } = await client(server.url, server.key).start("echo", { message: "one" });
  await expect.poll(() => answers(id)).toEqual(["heard user: one"]);
  await post(`/jobs/${id}/messages`, { content: "two" });
  await expect.poll(() => answers(id)).toHaveLength(2);
  await expect.poll(async () => (await answers(id)).at(-1)).toContain("user: two");
  return id;
}
const status = async (id: string) => (await server.service.get(JOBS).get(id)).status;

it("a fork of a thread has the messages that were copied, and continues with its own", async () => {
  const id = await talk();
  await server.service.get(RUNNER).fork(id, { from: "end", job_id: "fork" });
  await expect.poll(() => answers("fork")).toHaveLength(2);
  await post("/jobs/fork/messages", { content: "three" });
  await expect.poll(() => answers("fork")).toHaveLength(3);
  await expect.poll(async () => (await answers("fork")).at(-1)).toContain("user: three");

  const [first, second, third] = await answers("fork");
  expect([first, second]).toEqual(await answers(id));
  expect(third).toBe(`heard user: one, assistant: ${first}, user: two, assistant: ${second}, user: three`);
  expect(await status("fork")).toBe("in_progress");
});

it("a fork of a fork of a thread does so, too, and so does one whose message is answered again", async () => {
  const id = await talk();
  const runner = server.service.get(RUNNER);
  await runner.fork(id, { from: "turn-2/step:model", job_id: "a" });
  await expect.poll(() => answers("a")).toEqual(await answers(id));
  await runner.fork("a", { from: "turn-2/step:model", job_id: "b" });
  await expect.poll(() => answers("b")).toEqual(await answers(id));

  await post("/jobs/b/messages", { content: "three" });
  await expect.poll(async () => (await answers("b")).at(-1)).toContain("user: three");
  expect(await answers("a")).toHaveLength(2);
  expect(await answers(id)).toHaveLength(2);
});

it("a page that follows a fork of a thread finds the message that has just been sent", async () => {
  const id = await talk();
  const runner = server.service.get(RUNNER);
  await runner.pauseAgent("echo", { kind: "key" });
  await runner.fork(id, { from: "end", job_id: "fork" });
  const stream = () => server.request("/chat/echo/fork/stream");
  expect((await stream()).status).toBe(204);
  await post("/jobs/fork/messages", { content: "three" });

  const found = await stream();
  await runner.resumeAgent("echo", { kind: "key" });
  expect(await found.text()).toContain("user: three");
});

it.each(["last_step", "start"] as const)(
  "a response is not failed while its thread is retried from %s, and completed after it",
  async (from) => {
    const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });
    isAway = true;
    const failed = await openai.responses.create({ model: "echo", input: "hello", background: true });
    await expect.poll(async () => (await openai.responses.retrieve(failed.id)).status).toBe("failed");

    isAway = false;
    let go = (): void => {};
    waits = new Promise<void>((resolve) => {
      go = resolve;
    });
    const job = (failed as unknown as { thread_id: string }).thread_id;
    await expect.poll(() => status(job)).toBe("failed");
    await post(`/jobs/${job}/retry`, { from });
    await expect.poll(() => status(job)).toBe("in_progress");
    await expect.poll(() => answers(job)).toHaveLength(1);
    const under = await openai.responses.retrieve(failed.id);
    go();
    await expect.poll(() => status(job)).toBe("completed");

    expect(under.status).toBe("in_progress");
    expect(await openai.responses.retrieve(failed.id)).toMatchObject({
      ...{ status: "completed", error: null },
      output: [{ content: [{ text: "heard user: hello" }] }],
    });
  },
);

it("a response that follows one of a thread that was started over has each message of it once", async () => {
  const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });
  const say = (input: string) => openai.responses.create({ model: "echo", input, conversation: "talk" });
  await say("one");
  await post("/jobs/talk/stop", {});
  await expect.poll(() => status("talk")).toBe("cancelled");
  await post("/jobs/talk/retry", { from: "start" });
  await expect.poll(() => answers("talk")).toEqual(["heard user: one"]);
  const second = await say("two");

  const third = await openai.responses.create({
    ...{ model: "echo", input: "three", previous_response_id: second.id },
  });

  expect(third.output_text).toBe(
    `heard user: one, assistant: heard user: one, user: two, assistant: ${second.output_text}, user: three`,
  );
});

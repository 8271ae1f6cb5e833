import { HttpAgent } from "@ag-ui/client";
import { EventSchema } from "@ag-ui/core/schemas";
import { defineAgent } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { agUi } from "../../src/agui.ts";
import type { Cases } from "../../src/core/entities/cases.ts";
import type { Jobs } from "../../src/core/entities/jobs.ts";
import { startOfNew } from "../../src/core/http/first-response.ts";
import { tellStory } from "../../src/core/http/job-story.ts";
import { CASES, JOB_FEED, JOBS, STORE } from "../../src/core/service/tokens.ts";
import { toEvents } from "../../src/plugins/agui/to-events.ts";
import { startInstances } from "../instances/_instances.ts";

const writer = defineAgent({
  name: "Writer",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: [{ name: "topic", required: true }],
      run: async ({ job, fields }) => {
        const text = await job.step("draft", ({ emit }) => {
          for (const token of ["On ", String(fields.topic)]) emit(token);
          return `On ${fields.topic}`;
        });
        const item = await job.openCase({ id: "review", name: "Review" });
        const { approved } = await item.ask({
          key: "approve",
          question: "Publish it?",
          fields: [{ name: "approved", field_type: "BooleanField", required: true }],
        });
        await item.step("publish", () => approved);
        await item.close({ approved });
        return { text, approved };
      },
    },
  },
});
const options = { agents: [writer], plugins: [agUi()] };

type Sent = { readonly type: string } & Record<string, unknown>;

/** Runs an agent to the end of the stream; all events fit the published schema. */
async function run(server: TestServer, input: object): Promise<Sent[]> {
  const body = { threadId: "thread 1", messages: [], tools: [], context: [], state: {}, ...input };
  const response = await server.request("/ag-ui/writer", { json: body });
  expect(response.headers.get("content-type")).toContain("text/event-stream");
  const lines = (await response.text()).split("\n\n").filter((line) => line.startsWith("data: "));
  const events = lines.map((line) => JSON.parse(line.slice(6)) as Sent);
  for (const event of events) expect(EventSchema.safeParse(event).error).toBeUndefined();
  return events;
}

const message = { id: "m1", role: "user", content: "cats" };

it("a thread is a job: its first run ends with an interrupt, and the next one answers it", async () => {
  await using server = await testServer(options);

  const first = await run(server, { runId: "r1", messages: [message] });
  const end = first.at(-1) as never as { outcome: { interrupts: { id: string }[] } };
  const again = await run(server, { runId: "r2", messages: [message] });
  const resume = [
    { interruptId: end.outcome.interrupts[0]!.id, status: "resolved", payload: { approved: true } },
  ];
  await server.crash();
  const last = await run(server, { runId: "r3", messages: [message], resume });

  const types = first.map(({ type }) => type);
  expect(types[0]).toBe("RUN_STARTED");
  expect(types.filter((type) => type.startsWith("STEP_"))).toEqual(["STEP_STARTED", "STEP_FINISHED"]);
  expect(end).toMatchObject({
    ...{ type: "RUN_FINISHED", threadId: "thread 1", runId: "r1" },
    outcome: { type: "interrupt", interrupts: [{ message: "Publish it?", metadata: { case: "Review" } }] },
  });
  expect(again.at(-1)).toMatchObject({ runId: "r2", outcome: end.outcome });
  expect(last.at(-1)).toMatchObject({
    ...{ type: "RUN_FINISHED", runId: "r3", outcome: { type: "success" } },
    result: { text: "On cats", approved: true },
  });
});

it("a question that somebody else answers before the run has ended is no interrupt of it", async () => {
  await using server = await testServer(options);
  const [jobs, cases, feed] = [JOBS, CASES, JOB_FEED].map((token) => server.service.get(token as never));
  const json = { job_context: { job_id: "job-1" }, job_fields: { topic: "cats" } };
  await server.request("/agents/writer/jobs", { json });
  const show = () => (jobs as Jobs).get("job-1");
  await expect.poll(async () => (await show()).status).toBe("awaiting");
  const list: Cases["list"] = async (query) => {
    const page = await (cases as Cases).list(query);
    for (const { id } of page.items)
      await server.request(`/jobs/job-1/cases/${id}/update`, { json: { answer: { approved: true } } });
    return page;
  };

  const [store, clock] = [server.service.get(STORE), () => new Date()];
  const own = { find: (id: string) => (cases as Cases).find(id), list };
  const parts = { jobs, feed, cases: own, store, clock } as never;
  const job = await show();
  const about = { start: startOfNew(job), signal: AbortSignal.timeout(20_000) };
  const story = tellStory(parts, { job, key: "r" }, about);
  const events: Sent[] = [];
  for await (const event of toEvents(story, { threadId: "t", runId: "r", base: server.url }))
    events.push(event);

  expect(events.at(-1)).toMatchObject({ type: "RUN_FINISHED", outcome: { type: "success" } });
});

it("questions that are asked together are interrupts together; calls of tools are shown, and what changes of the state", async () => {
  const asks = defineAgent({
    name: "Asks",
    version: "1.0.0",
    methods: {
      job_start: {
        async run({ job }) {
          await job.step("search", () => ({ found: 2 }), { kind: "tool", input: { query: "rye" } });
          const items = [await job.openCase({ id: "one", name: "one" })];
          items.push(await job.openCase({ id: "two", name: "two" }));
          const fields = [{ name: "ok", field_type: "BooleanField" as const }];
          await Promise.all(items.map((item) => item.ask({ question: "Fine?", fields })));
          for (const item of items) await item.close();
          return "done";
        },
      },
    },
  });
  await using server = await testServer({ agents: [asks], plugins: [agUi()] });
  const body = { threadId: "t", messages: [], tools: [], context: [], state: {} };
  const agent = new HttpAgent({
    ...{ url: `${server.url}/ag-ui/asks`, threadId: "t", headers: { "X-API-Key": server.key } },
  });
  const events: Sent[] = [];
  const onEvent = ({ event }: { event: object }) => void events.push(event as Sent);
  await agent.runAgent({ runId: "r1" }, { onEvent });
  const { outcome } = events.at(-1) as never as {
    outcome: { interrupts: { id: string; metadata: { case: string } }[] };
  };
  const resume = outcome.interrupts.map(({ id: interruptId }) => ({
    ...{ interruptId, status: "resolved", payload: { ok: true } },
  }));
  const last = await server.request("/ag-ui/asks", { json: { ...body, runId: "r2", resume } });

  expect(outcome.interrupts.map(({ metadata }) => metadata.case).sort()).toEqual(["one", "two"]);
  expect(events.filter(({ type }) => type.startsWith("TOOL_CALL_"))).toMatchObject([
    { type: "TOOL_CALL_START", toolCallName: "search" },
    { type: "TOOL_CALL_ARGS", delta: '{"query":"rye"}' },
    { type: "TOOL_CALL_END" },
    { type: "TOOL_CALL_RESULT", content: '{"found":2}' },
  ]);
  const states = events.filter(({ type }) => type.startsWith("STATE_")).map(({ type }) => type);
  expect([states[0], ...new Set(states.slice(1))]).toEqual(["STATE_SNAPSHOT", "STATE_DELTA"]);
  expect(agent.state).toMatchObject({ job_id: "t", status: "awaiting" });
  expect(await last.text()).toContain('"result":"done"');
});

it("a further message to a job that has ended is refused by name, and a run that is sent again shows its end", async () => {
  await using server = await testServer(options);
  const first = await run(server, { runId: "r1", messages: [message] });
  const end = first.at(-1) as never as { outcome: { interrupts: { id: string }[] } };
  const resume = [
    { interruptId: end.outcome.interrupts[0]!.id, status: "resolved", payload: { approved: true } },
  ];
  await run(server, { runId: "r2", messages: [message], resume });

  const messages = [message, { id: "m2", role: "user", content: "and dogs" }];
  const refused = await server.request("/ag-ui/writer", {
    json: { threadId: "thread 1", runId: "r3", messages, tools: [], context: [], state: {} },
  });
  const again = await run(server, { runId: "r2", messages: [message], resume });

  expect(refused.status).toBe(409);
  expect(await refused.json()).toMatchObject({ error: expect.stringContaining("has ended") });
  expect(again.at(-1)).toMatchObject({ type: "RUN_FINISHED", result: { text: "On cats", approved: true } });
});

it("a run that is sent again ends as it did first, whatever has happened to its job since", async () => {
  await using server = await testServer(options);
  const asked = { runId: "r1", messages: [message] };
  const first = await run(server, asked);
  const { outcome } = first.at(-1) as never as { outcome: { interrupts: { id: string }[] } };
  const resume = [
    { interruptId: outcome.interrupts[0]!.id, status: "resolved", payload: { approved: true } },
  ];
  const answered = { runId: "r2", messages: [message], resume };
  const second = await run(server, answered);

  for (const _ of [2, 3]) {
    expect((await run(server, asked)).at(-1)).toEqual(first.at(-1));
    expect((await run(server, answered)).at(-1)).toEqual(second.at(-1));
    await server.crash();
  }
  expect(first.at(-1)).toMatchObject({ type: "RUN_FINISHED", outcome: { type: "interrupt" } });
  expect(second.at(-1)).toMatchObject({ type: "RUN_FINISHED", result: { approved: true } });
  // Another run with the id of the first one is no repetition of it.
  expect((await run(server, { ...asked, resume })).at(-1)).toMatchObject({ result: { approved: true } });
});

it("a run with another message to a thread that has one is refused, and one without a message follows the job", async () => {
  await using server = await testServer(options);
  const first = await run(server, { runId: "r1", messages: [message] });
  const send = (input: object) =>
    server.request("/ag-ui/writer", { json: { threadId: "thread 1", runId: "r2", messages: [], ...input } });

  const other = { ...message, content: "dogs" };
  for (const input of [{ messages: [other] }, { forwardedProps: { fields: { topic: "dogs" } } }]) {
    const refused = await send(input);
    expect(refused.status).toBe(409);
    expect(await refused.json()).toMatchObject({ error: expect.stringContaining("different content") });
  }
  const { outcome } = first.at(-1) as never as { outcome: object };
  expect((await run(server, { runId: "r3" })).at(-1)).toMatchObject({ outcome });
  expect((await run(server, { runId: "r4", messages: [message] })).at(-1)).toMatchObject({ outcome });
});

it("another instance streams the run, and refuses what does not fit", async () => {
  const [one, other] = await startInstances([options, options]);

  const first = await run(one, { runId: "r1", forwardedProps: { fields: { topic: "dogs" } } });
  const { outcome } = first.at(-1) as never as { outcome: { interrupts: { id: string }[] } };
  const resume = (payload: object) => [
    { interruptId: outcome.interrupts[0]!.id, status: "resolved", payload },
  ];
  const body = { threadId: "thread 1", runId: "r2", resume: resume({ approved: "perhaps" }) };
  const refused = await other.request("/ag-ui/writer", { json: body });
  const last = await run(other, { runId: "r3", resume: resume({ approved: false }) });

  expect(refused.status).toBe(422);
  expect(last.at(-1)).toMatchObject({ type: "RUN_FINISHED", result: { approved: false } });
  expect((await one.request("/ag-ui/writer", { json: { threadId: "t", runId: "r" } })).status).toBe(422);
});

it("what a step emits are text messages while it runs; another attempt writes another one", async () => {
  let letGo = () => {};
  const isRead = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const typist = defineAgent({
    name: "Typist",
    version: "1.0.0",
    methods: {
      job_start: {
        run: ({ job }) =>
          job.step(
            "draft",
            async ({ emit, attempt }) => {
              for (const token of ["On ", "cats. "]) emit(token);
              emit({ words: 2 });
              if (attempt === 1) {
                await isRead;
                throw new Error("The model hung up");
              }
              return "On cats.";
            },
            { retries: 1, backoff: { initial: "1ms" } },
          ),
      },
    },
  });
  await using server = await testServer({ agents: [typist], plugins: [agUi()] });
  const body = { threadId: "t", runId: "r", messages: [], tools: [], context: [], state: {} };
  const response = await server.request("/ag-ui/typist", { json: body });

  const events: Sent[] = [];
  let rest = "";
  for await (const text of response.body!.pipeThrough(new TextDecoderStream())) {
    const parts = (rest + text).split("\n\n");
    rest = parts.pop()!;
    for (const part of parts.filter((one) => one.startsWith("data: ")))
      events.push(JSON.parse(part.slice(6)) as Sent);
    // Only then does the attempt end.
    if (events.some(({ type }) => type === "CUSTOM")) letGo();
  }

  for (const event of events) expect(EventSchema.safeParse(event).error).toBeUndefined();
  const first = events.find(({ type }) => type === "TEXT_MESSAGE_START")!.messageId;
  const ofFirst = events.filter(({ messageId }) => messageId === first);
  expect(ofFirst.at(0)).toMatchObject({ type: "TEXT_MESSAGE_START", role: "assistant" });
  expect(ofFirst.at(-1)?.type).toBe("TEXT_MESSAGE_END");
  expect(ofFirst.map(({ delta }) => delta ?? "").join("")).toBe("On cats. ");
  const custom = events.find(({ type }) => type === "CUSTOM");
  expect(custom).toMatchObject({ name: "chunk", value: { messageId: first, value: { words: 2 } } });
  const others = events.filter(
    ({ type, messageId }) => type === "TEXT_MESSAGE_CONTENT" && messageId !== first,
  );
  // The second attempt may be over before its tokens are read: its result is in the record.
  for (const { delta } of others) expect("On cats. ").toContain(delta);
  expect(events.at(-1)).toMatchObject({ type: "RUN_FINISHED", result: "On cats." });
});

it("a picture that the agent cannot take is refused, and starts nothing", async () => {
  await using server = await testServer(options);
  const content = [
    { type: "text", text: "what is this?" },
    { type: "image", source: { type: "data", value: "iVBORw0KGgo=", mimeType: "image/png" } },
  ];
  const messages = [{ ...message, content }];

  const refused = await server.request("/ag-ui/writer", {
    json: { threadId: "pictures", runId: "r1", messages, tools: [], context: [], state: {} },
  });

  expect(refused.status).toBe(415);
  expect(await refused.json()).toMatchObject({ error: 'The agent does not accept content of type "image"' });
  expect((await server.request("/jobs/pictures")).status).toBe(404);
});

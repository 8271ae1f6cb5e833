// @long
// @losses
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { said } from "../a2a/_call.ts";
import { access, PROCESS_TIME, project } from "../cli/_svc.ts";
import { connect, connectPlain } from "../mcp/_client.ts";
import { ServiceProcess } from "../runs/_process.ts";

/** Both agents ask, note a payment in a file, wait for another file, and note a tip, with the name of their order. */
const CONTROLLER = `
import { appendFileSync, existsSync } from "node:fs";
import { createServer, defineAgent, defineChat } from "agent-control-service";
import { a2a } from "agent-control-service/a2a";
import { agUi } from "agent-control-service/agui";
import { mcp } from "agent-control-service/mcp";

const fields = [{ name: "approved", field_type: "BooleanField", required: true }];
const released = async () => {
  while (!existsSync("go")) await new Promise((done) => setTimeout(done, 20));
};
const work = async (scope, order, ask) => {
  await scope.step("look", ({ emit }) => emit("Looking."));
  await ask({ question: "Pay " + order + "?", fields });
  await scope.step("pay", () => appendFileSync("effects", order + " paid\\n"), { cost: 1 });
  return scope.step("tip", async ({ emit }) => {
    // The payment is recorded: it is not made again.
    appendFileSync("recorded", order + "\\n");
    await released();
    appendFileSync("effects", order + " tipped\\n");
    emit("Paid " + order);
    return "Paid " + order;
  });
};
const payer = defineAgent({
  name: "Payer", version: "1.0.0",
  methods: { job_start: { fields: [{ name: "order", required: true }], run: async ({ job, fields: { order } }) => {
    const item = await job.openCase({ id: "pay", name: "Pay" });
    const paid = await work(item, order, (question) => item.ask(question));
    await item.close({ paid });
    return paid;
  } } },
});
const asker = defineChat({
  name: "Asker", version: "1.0.0",
  reply: ({ message, turn }) => work(turn, message, (question) => turn.ask("pay", question)),
});
export default createServer({ agents: [payer, asker], plugins: [a2a(), agUi(), mcp({ wait: "50s" })] });
`;

interface Address {
  readonly url: string;
  readonly key: string;
}

/** What a request gives: the JSON of its response, or of the events of its stream. */
// biome-ignore lint/suspicious/noExplicitAny: any member of any message
type Reply = any;

/** Two requests: one that ends with a question, and one that answers it. */
interface Conversation {
  readonly ask: (to: Address, order: string) => Promise<Reply>;
  readonly answer: (to: Address, order: string, asked: Reply) => Promise<Reply>;
}

async function post(
  { url, key }: Address,
  path: string,
  body: object,
  more: Record<string, string> = {},
): Promise<Reply> {
  const headers = { "content-type": "application/json", "x-api-key": key, "a2a-version": "1.0", ...more };
  const response = await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) {
    expect(response.status).toBe(200);
    return JSON.parse(text);
  }
  const data = [...text.matchAll(/^data: (.*)$/gm)].map(([, line]) => line!);
  // A stream that breaks off has no end.
  if (data.length === 0) throw new Error("The stream has no event");
  return data.map((line) => (line === "[DONE]" ? line : JSON.parse(line)));
}

const keyed = (id: string) => ({ "idempotency-key": id });
const user = (id: string, content: string) => ({ id, role: "user", content });
const yes = [{ data: { approved: true } }];

const openai = (path: string, toBody: (order: string, content: string) => object): Conversation => ({
  ask: (to, order) => post(to, path, toBody(order, order), keyed(`ask-${order}`)),
  answer: (to, order) => post(to, path, toBody(order, "yes"), keyed(`answer-${order}`)),
});
const chatBody = (stream: boolean) => (order: string, content: string) => ({
  ...{ model: "asker", metadata: { thread_id: order }, stream, messages: [{ role: "user", content }] },
});
const responseBody = (stream: boolean) => (conversation: string, input: string) => ({
  ...{ model: "asker", conversation, input, stream },
});
const a2a = (way: "stream" | "send"): Conversation => ({
  ask: (to, order) => post(to, `/a2a/payer/message:${way}`, said(`ask ${order}`, [{ data: { order } }])),
  answer: (to, order, asked) => {
    const { id: taskId } = (way === "stream" ? asked[0] : asked).task;
    return post(to, `/a2a/payer/message:${way}`, said(`answer ${order}`, yes, { taskId }));
  },
});
const agui = (agent: string, of: (events: Reply) => Reply = (events) => events): Conversation => {
  const run = async (to: Address, input: object) =>
    of(await post(to, `/ag-ui/${agent}`, { tools: [], context: [], state: {}, ...input }));
  return {
    ask: (to, order) =>
      run(to, { threadId: order, runId: "r1", messages: [user("m1", order)], forwardedProps: {} }),
    answer: (to, order, asked) => {
      const { interrupts } = asked.at(-1).outcome;
      const resume = [{ interruptId: interrupts[0].id, status: "resolved", payload: { approved: true } }];
      return run(to, { threadId: order, runId: "r2", messages: [], resume });
    },
  };
};
const callTool = async (to: Address, name: string, args: object, id: string): Promise<Reply> => {
  const client = await connectPlain(to);
  const _meta = { "agent-control-service/idempotency-key": id };
  return client.callTool({ name, arguments: { ...args }, _meta }, { timeout: 120_000 });
};

const CONVERSATIONS: Readonly<Record<string, Conversation>> = {
  "chat completions": openai("/v1/chat/completions", chatBody(false)),
  "chat completions, streamed": openai("/v1/chat/completions", chatBody(true)),
  responses: openai("/v1/responses", responseBody(false)),
  "responses, streamed": openai("/v1/responses", responseBody(true)),
  "AI SDK": {
    ask: (to, order) => say(to, order, `ask ${order}`, order),
    answer: (to, order) => say(to, order, `answer ${order}`, "yes"),
  },
  "AG-UI, a chat": agui("asker", (events) =>
    // The state of a thread is as it is now.
    events.filter(({ type }: Reply) => !type.startsWith("STATE_")),
  ),
  "AG-UI, a job": agui("payer"),
  A2A: a2a("send"),
  "A2A, streamed": a2a("stream"),
  "A2A, a chat": {
    ask: (to, contextId) => sayA2a(to, contextId, `ask ${contextId}`, contextId),
    answer: (to, contextId) => sayA2a(to, contextId, `answer ${contextId}`, "yes"),
  },
  "MCP, a call with a key": {
    ask: (to, order) => callTool(to, "payer", { order }, `ask-${order}`),
    // The job's first result is that it works: it is not waited for.
    answer: (to, order, asked) => {
      const { job_id, questions } = asked.structuredContent;
      return callTool(
        to,
        "job_answer",
        { job_id, question: questions[0].question, answer: { approved: true } },
        order,
      );
    },
  },
  "MCP, a chat": {
    ask: (to, thread) => callTool(to, "asker", { message: thread, thread }, `ask-${thread}`),
    answer: (to, thread) => callTool(to, "asker", { message: "yes", thread }, `answer-${thread}`),
  },
  "MCP, a task": {
    ask: async (to, order) => {
      const client = await connect(to);
      return client.start("payer", { order }, { "agent-control-service/idempotency-key": order });
    },
    answer: async (to, _, id) => {
      const client = await connect(to);
      const task = await client.settled(id);
      const [request] = Object.keys((task.inputRequests ?? {}) as object);
      if (request) await client.update(id, { [request]: { action: "accept", content: { approved: true } } });
      return (await client.settled(id)).status;
    },
  },
};

function say(to: Address, id: string, messageId: string, text: string): Promise<Reply> {
  const messages = [{ id: messageId, role: "user", parts: [{ type: "text", text }] }];
  return post(to, "/chat/asker", { id, messages, trigger: "submit-message", messageId });
}

function sayA2a(to: Address, contextId: string, messageId: string, text: string): Promise<Reply> {
  return post(to, "/a2a/asker/message:stream", said(messageId, [{ text }], { contextId }));
}

const rows = Object.entries(CONVERSATIONS).map(([name, conversation], at) => ({
  ...{ name, conversation, order: `order-${at}` },
}));
/** The job whose answer has a response before its end. */
const notWaited = (asked: readonly Reply[]): string =>
  asked[rows.findIndex(({ name }) => name === "MCP, a call with a key")].structuredContent.job_id;
const byName = <T>(values: readonly T[]): Record<string, T> =>
  Object.fromEntries(rows.map(({ name }, at) => [name, values[at]!]));

it(
  "a request whose service is killed before or after its response has one effect, and each time the same response",
  async () => {
    const service = await ServiceProcess.in(await project({ "controller.mjs": CONTROLLER }));
    const lines = async (file: string): Promise<string[]> =>
      (await readFile(join(service.folder, file), "utf8").catch(() => "")).split("\n").filter(Boolean).sort();
    const effects = () => lines("effects");
    const recorded = async () => [...new Set(await lines("recorded"))];
    const restart = async (): Promise<void> => {
      await service.kill();
      await service.start();
    };
    const askAll = async () => {
      const to = await access(service.folder);
      return Promise.all(rows.map(({ conversation, order }) => conversation.ask(to, order)));
    };
    const answerAll = async (asked: readonly Reply[]) => {
      const to = await access(service.folder);
      return rows.map(async ({ conversation, order }, at) => conversation.answer(to, order, asked[at]));
    };
    const all = (what: string) => rows.map(({ order }) => `${order} ${what}`).sort();

    // Killed after the response.
    const asked = await askAll();
    await restart();
    // Killed before it, but after its effect.
    const lost = (await answerAll(asked)).map((reply) => reply.catch(() => "lost"));
    await expect.poll(recorded, { timeout: 30_000 }).toEqual(rows.map(({ order }) => order).sort());
    expect(await effects()).toEqual(all("paid"));
    await restart();
    await Promise.all(lost);
    const answers = await answerAll(asked);
    await writeFile(join(service.folder, "go"), "");
    const answered = await Promise.all(answers);
    // One client does not hear of the end of its job.
    await expect.poll(effects, { timeout: 30_000 }).toEqual([...all("paid"), ...all("tipped")].sort());
    await service.until(notWaited(asked), ["completed"]);

    for (const _ of [2, 3]) {
      await restart();
      expect(byName(await askAll())).toEqual(byName(asked));
      expect(byName(await Promise.all(await answerAll(asked)))).toEqual(byName(answered));
    }
    for (const [at, { name, order }] of rows.entries()) {
      expect(JSON.stringify(asked[at]), name).toContain(name === "MCP, a task" ? "-" : `Pay ${order}?`);
      if (!name.startsWith("MCP")) expect(JSON.stringify(answered[at]), name).toContain(`Paid ${order}`);
    }
    expect(await effects()).toEqual([...all("paid"), ...all("tipped")].sort());
    await service.end();
  },
  PROCESS_TIME,
);

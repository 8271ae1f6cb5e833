import { hash } from "node:crypto";
import { HttpAgent } from "@ag-ui/client";
import { defineAgent, defineChat, file } from "agent-control-service";
import { client } from "agent-control-service/client";
import { JOBS, STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import OpenAI from "openai";
import * as v from "valibot";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { a2a } from "../../src/a2a.ts";
import { agUi } from "../../src/agui.ts";
import { mcp } from "../../src/mcp.ts";
import { connect as connectA2a, messageOf, send, shown } from "../a2a/_client.ts";
import { uiChat } from "../http/_ui-chat.ts";
import { connect as connectMcp, connectPlain } from "../mcp/_client.ts";

const desk = defineChat({
  name: "Desk",
  version: "1.0.0",
  async reply({ message, messages, turn }) {
    if (!message.startsWith("ask")) return `${messages.map(({ content }) => content).join(" + ")}`;
    const { fine } = await turn.ask("fine", { question: "Fine?", fields: v.object({ fine: v.boolean() }) });
    return `fine: ${fine}`;
  },
});
const reader = defineAgent({
  name: "Reader",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({ paper: file() }),
      async run({ job, fields: { paper } }) {
        const item = await job.openCase({ id: `case-${job.id}`, name: "Paper" });
        const { fine } = await item.ask({ question: "Fine?", fields: v.object({ fine: v.boolean() }) });
        await item.close();
        return { name: paper.name, fine };
      },
    },
  },
});

interface Address {
  readonly url: string;
  readonly key: string;
}

/** What a program does with a thread by the official client of a protocol. */
interface Conversation {
  /** Says something; what the agent answers. */
  say(content: string): Promise<string>;
  /** Tries to read, continue, answer and stop a thread that somebody else has; what each attempt gives. */
  reach(): Promise<readonly string[]>;
}

/** What an attempt gives: what arrives, or the error. */
const outcome = async (attempt: Promise<unknown>): Promise<string> =>
  attempt.then(
    (value) => JSON.stringify(value) ?? "",
    (error: unknown) => `${String(error)} ${JSON.stringify(error)}`,
  );

const CLIENTS: Readonly<
  Record<string, (at: Address, thread: string) => Promise<Conversation> | Conversation>
> = {
  async MCP(at, thread) {
    const mcp = await connectPlain(at);
    const call = async (name: string, args: Record<string, unknown>) =>
      (await mcp.callTool({ name, arguments: args })) as {
        content: { text: string }[];
        structuredContent?: unknown;
      };
    return {
      say: async (message) => {
        const { structuredContent } = await call("desk", { message, thread });
        return String((structuredContent as { result: unknown }).result);
      },
      reach: () =>
        Promise.all([
          outcome(call("job_status", { job_id: thread })),
          outcome(call("desk", { message: "taken over", thread })),
          outcome(call("job_answer", { job_id: thread, question: "fine", answer: { fine: true } })),
          outcome(call("job_cancel", { job_id: thread })),
        ]),
    };
  },
  async A2A(at, contextId) {
    const a2a = await connectA2a(at, "JSONRPC", "desk");
    let messages = 0;
    const say = async (text: string) =>
      send(a2a, { ...messageOf(`${at.key}-${contextId}-${messages++}`, [{ text }]), contextId });
    return {
      say: async (text) => String(shown(await say(text)).artifacts.Result),
      reach: async () => {
        const listed = await outcome(
          a2a.listTasks({
            ...{ tenant: "", contextId, status: 0, pageSize: 100, pageToken: "", historyLength: 10 },
            ...{ statusTimestampAfter: undefined, includeArtifacts: true },
          }),
        );
        return [
          listed,
          ...(await Promise.all([
            outcome(a2a.getTask({ tenant: "", id: contextId, historyLength: 10 })),
            outcome(a2a.cancelTask({ tenant: "", id: contextId, metadata: undefined })),
            outcome(say("taken over")),
          ])),
        ];
      },
    };
  },
  "AG-UI"({ url, key }, threadId) {
    const run = async (content: string, id: string) => {
      const agent = new HttpAgent({ url: `${url}/ag-ui/desk`, threadId, headers: { "X-API-Key": key } });
      agent.addMessage({ id, role: "user", content });
      return (await agent.runAgent()).result as unknown;
    };
    return {
      say: async (content) => String(await run(content, `m-${content}`)),
      reach: async () => [await outcome(run("taken over", "t-1"))],
    };
  },
  OpenAI({ url, key }, thread_id) {
    const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
    const say = async (content: string) => {
      const { choices } = await openai.chat.completions.create({
        ...{ model: "desk", messages: [{ role: "user" as const, content }], metadata: { thread_id } },
      });
      return choices[0]!.message.content ?? "";
    };
    return { say, reach: async () => [await outcome(say("taken over"))] };
  },
  "the AI SDK"(at, id) {
    const window = uiChat(at, { agent: "desk", id });
    return {
      say: (text) => window.say(text),
      reach: async () => [
        await outcome(window.say("taken over")),
        await outcome(window.chat.resumeStream().then(() => window.chat.messages)),
      ],
    };
  },
  "the typed client"({ url, key }, id) {
    const service = client(url, key);
    const job = service.job(id);
    return {
      say: async (content) => {
        if (!(await service.list("desk")).items.some(({ job_id }) => job_id === id))
          await service.start("desk", { message: content }, { id });
        else await job.send(content);
        const told = async () => (await job.cases()).find(({ name }) => name === content)?.final_delivery;
        await expect.poll(told).toBeTruthy();
        return String((await told())!.answer);
      },
      reach: () =>
        Promise.all([
          outcome(job.read()),
          outcome(job.cases()),
          outcome(job.stream().next()),
          outcome(job.result()),
          outcome(job.send("taken over")),
          outcome(job.answer(id, { fine: true })),
          outcome(job.stop()),
          outcome(job.token()),
          outcome(job.revokeTokens()),
          outcome(job.files()),
          outcome(service.start("desk", { message: "taken over" }, { id })),
        ]),
    };
  },
};

const keyOf = (name: string) => `svck_test_${name}_${"k".repeat(43)}`;
const KEYS = ["one", "two"] as const;

let server: TestServer;
beforeAll(async () => {
  const keys = KEYS.map((name) => ({
    ...{ name, role: "starter" as const, sha256: hash("sha256", keyOf(name), "hex") },
  }));
  server = await testServer({ agents: [desk, reader], plugins: [mcp(), a2a(), agUi()], access: { keys } });
});
afterAll(() => server[Symbol.asyncDispose]());
const as = (name: (typeof KEYS)[number]): Address => ({ url: server.url, key: keyOf(name) });

describe.each(Object.keys(CLIENTS))("%s with a starter key", (name) => {
  const threadOf = (key: string) => `${name.toLowerCase().replaceAll(" ", "-")}-of-${key}`;

  it("talks in its threads, which another starter neither reads, continues nor stops", async () => {
    const said: Record<string, string[]> = {};
    for (const key of KEYS) {
      const { say } = await CLIENTS[name]!(as(key), threadOf(key));
      said[key] = [await say(`secret-of-${key}`), await say(`more-of-${key}`)];
    }
    const log = server.service.get(STORE).log("Run");
    const before = await Promise.all(KEYS.map((key) => log.last(threadOf(key))));
    const met: string[] = [];
    for (const [key, other] of [
      ["one", "two"],
      ["two", "one"],
    ] as const) {
      const { reach } = await CLIENTS[name]!(as(key), threadOf(other));
      met.push(...(await reach()));
    }
    const after = await Promise.all(KEYS.map((key) => log.last(threadOf(key))));

    for (const key of KEYS) {
      expect(said[key]![0]).toContain(`secret-of-${key}`);
      expect(said[key]![1]).toContain(`more-of-${key}`);
    }
    expect(met.length).toBeGreaterThan(1);
    for (const text of met) expect(text).not.toMatch(/(secret|more)-of-/);
    expect(after).toEqual(before);
    expect(before.every((lines) => lines > 2)).toBe(true);
  });

  it("meets the agents of the service, and only its own jobs in lists", async () => {
    const own = await client(server.url, keyOf("one")).list(undefined, { limit: 1000 });
    const all = await server.service.get(JOBS).list({ limit: 1000 });
    const startedBy = new Map(all.items.map(({ id, job_context }) => [id, job_context.started_by]));

    expect(own.total).toBe(all.items.filter(({ access }) => access === "declared:one").length);
    expect(own.items.map(({ job_id }) => startedBy.has(job_id))).not.toContain(false);
    expect(own.total).toBeLessThan(all.total);
  });
});

describe("tasks of MCP with a starter key", () => {
  it("are those that it has started", async () => {
    const one = await connectMcp(as("one"));
    const two = await connectMcp(as("two"));
    const id = await one.start("desk", { message: "secret-of-task" });

    const own = await one.settled(id);
    const foreign = await Promise.all([
      outcome(two.get(id)),
      outcome(two.update(id, {})),
      outcome(two.cancel(id)),
    ]);

    expect(own.status).toBe("completed");
    expect(JSON.stringify(own)).toContain("secret-of-task");
    for (const text of foreign) expect(text).not.toContain("secret-of-task");
    expect(foreign[0]).toMatch(/does not exist|not found|-32/i);
  });
});

describe("files with a starter key", () => {
  it("are uploaded, used, asked about and read by who has sent them, and by nobody else", async () => {
    const [one, two] = KEYS.map((name) => client(server.url, keyOf(name)));
    const paper = await one!.upload(new Blob(["secret of the paper"]), { name: "paper.txt" });
    const stolen = await outcome(two!.start("reader", { paper }, { id: "stolen" }));
    const job = await one!.start("reader", { paper }, { id: "paper-of-one" });
    const open = async () => (await job.cases()).find(({ question }) => question)?.id;
    await expect.poll(open).toBeTruthy();
    const [read] = await job.files();
    const foreign = two!.job("paper-of-one");
    const refused = await Promise.all([outcome(foreign.files()), outcome(foreign.download(read!))]);
    const answers = await outcome(foreign.answer((await open())!, { fine: false }));
    await job.answer((await open())!, { fine: true });

    expect(await job.result()).toEqual({ name: "paper.txt", fine: true });
    expect(stolen).toMatch(/upload/i);
    expect(await (await job.download(read!)).text()).toBe("secret of the paper");
    for (const text of [...refused, answers]) expect(text).toMatch(/not[ _](exist|found)/);
  });
});

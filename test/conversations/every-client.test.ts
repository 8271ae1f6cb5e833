// @long
import { hash } from "node:crypto";
import { a2a } from "agent-control-service/a2a";
import { agUi } from "agent-control-service/agui";
import { mcp } from "agent-control-service/mcp";
import { CASES, THREADS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { beforeEach, describe, expect, it } from "vitest";
import { createAsker } from "../http/_asker.ts";
import { CHAT_CLIENTS } from "../http/_chat-clients.ts";

let server: TestServer;
let agent: ReturnType<typeof createAsker>;
beforeEach(async () => {
  agent = createAsker();
  server = await testServer({ agents: [agent.asker], plugins: [a2a(), agUi(), mcp()] });
  return () => server[Symbol.asyncDispose]();
});

type Said = readonly [content: string, gives: string];

interface Conversation {
  readonly name: string;
  readonly said: readonly Said[];
  readonly turns: readonly string[];
  readonly paid?: readonly string[];
}

/** What a person says, and what the agent replies: the same at every client. */
const CONVERSATIONS: readonly Conversation[] = [
  {
    name: "messages",
    said: [
      ["one", "said one as call 1"],
      ["two", "said two as call 2"],
    ],
    turns: ["one: completed", "two: completed"],
  },
  {
    name: "a question, and answers in words",
    said: [
      ["ok", "Pay 900 EUR?"],
      ["sure, go ahead", "And a tip?"],
      ["no thanks", "PAID"],
    ],
    turns: ["ok: completed"],
    paid: ["900"],
  },
  {
    name: "a refusal in words",
    said: [
      ["ok", "Pay 900 EUR?"],
      ["no way", "not paid"],
    ],
    turns: ["ok: completed"],
  },
  {
    name: "a reply that is not clear",
    said: [
      ["ok", "Pay 900 EUR?"],
      ["only half of it", "Pay 900 EUR?"],
      ["yes please", "And a tip?"],
    ],
    turns: ["ok: awaiting"],
    paid: ["900"],
  },
  {
    name: "a free text as an answer",
    said: [
      ["refund 7", "Why?"],
      ["it came late", "refunded because: it came late"],
    ],
    turns: ["refund 7: completed"],
  },
  {
    name: "an answer that fails, and the next message",
    said: [
      ["broken", "failed: The model is away"],
      ["one", "said one as call 1"],
    ],
    turns: ["broken: failed", "one: completed"],
  },
];

/** How often each message is sent, and how: each time with the id of the first. */
const SENT = [
  ["once", 1, "one after the other"],
  ["twice", 2, "one after the other"],
  ["three times", 3, "one after the other"],
  ["three times at the same time", 3, "together"],
] as const;

const turnsOf = async (thread: string) =>
  (await server.service.get(CASES).list({ where: { job_id: thread }, sort: "created_at" })).items.map(
    ({ name, status }) => `${name}: ${status}`,
  );
const textOf = (reply: Promise<string>) =>
  reply.catch((error: Error) => `failed: ${/The model is away/.exec(error.message)?.[0] ?? error.message}`);

describe.each(Object.entries(CHAT_CLIENTS))("a person at a client of %s", (_name, clientOf) => {
  const say = (content: string, id: string, signal?: AbortSignal) =>
    textOf(clientOf(server)("t", content, id, signal));

  describe.each(SENT)("whose messages are sent %s", (_, times, how) => {
    it.each(CONVERSATIONS)("has this conversation: $name", async ({ said, turns, paid = [] }) => {
      for (const [at, [content, gives]] of said.entries()) {
        const send = () => say(content, `m-${at}`);
        const replies =
          how === "together" ? await Promise.all(Array.from({ length: times }, send)) : [await send()];
        while (replies.length < times) replies.push(await send());
        expect(replies).toEqual(Array.from({ length: times }, () => gives));
      }

      expect(await turnsOf("t")).toEqual(turns);
      expect(agent.paid).toEqual(paid);
      expect(agent.calls.length).toBeLessThanOrEqual(turns.length);
    });
  });

  it("gets each first reply again, also after a crash and once the conversation is over", async () => {
    const said = [
      ["one", "said one as call 1"],
      ["ok", "Pay 900 EUR?"],
      ["yes please", "And a tip?"],
      ["no", "PAID"],
    ] as const;
    const all = async () => {
      const replies: string[] = [];
      for (const [at, [content]] of said.entries()) replies.push(await say(content, `m-${at}`));
      return replies;
    };
    const first = said.map(([, gives]) => gives);

    expect(await all()).toEqual(first);
    expect(await all()).toEqual(first);
    await server.crash();
    expect(await all()).toEqual(first);
    expect(agent.paid).toEqual(["900"]);
    expect(await turnsOf("t")).toEqual(["one: completed", "ok: completed"]);
  });

  it("is shown a question that came up elsewhere before a text answers it", async () => {
    const job_context = { job_id: "t" };
    await server.request("/agents/asker/jobs", { json: { job_context, job_fields: { message: "ok" } } });
    await expect.poll(() => turnsOf("t")).toEqual(["ok: awaiting"]);

    expect(await say("yes", "m-1")).toBe("Pay 900 EUR?");
    expect(agent.paid).toEqual([]);
    expect(await say("yes", "m-2")).toBe("And a tip?");
    expect(agent.paid).toEqual(["900"]);
  });

  it("continues no thread of another key, and answers none of its questions", async () => {
    const keyOf = (holder: string) => `svck_test_${holder}_${"k".repeat(43)}`;
    const keys = ["one", "two"].map((holder) => ({
      ...{ name: holder, role: "starter" as const, sha256: hash("sha256", keyOf(holder), "hex") },
    }));
    const plugins = [a2a(), agUi(), mcp()];
    await using own = await testServer({ agents: [agent.asker], plugins, access: { keys } });
    const sayAs = (holder: string, content: string, id: string) =>
      textOf(clientOf({ url: own.url, key: keyOf(holder) })("t", content, id));
    await sayAs("one", "ok", "m-1");

    for (const id of ["m-1", "m-2"]) {
      const reply = await sayAs("two", id === "m-1" ? "ok" : "yes", id);
      expect(reply).not.toContain("Pay");
      expect(reply).toMatch(/^failed: /);
    }

    expect(agent.paid).toEqual([]);
    expect(await sayAs("one", "yes", "m-2")).toBe("And a tip?");
  });

  it("that disconnects loses nothing: the answer is written, and the same message gets it", async () => {
    const leaving = new AbortController();
    const lost = say("slow", "m-1", leaving.signal);
    await expect.poll(() => agent.calls).toEqual(["slow"]);
    leaving.abort();
    await lost;
    const again = say("slow", "m-1");
    agent.release();

    expect(await again).toBe("said slow as call 1");
    expect(agent.calls).toEqual(["slow"]);
    expect(await turnsOf("t")).toEqual(["slow: completed"]);
  });

  it("and another one speak at the same time: each is answered, in one thread", async () => {
    const replies = await Promise.all([say("one", "m-1"), say("two", "m-2")]);

    expect(replies.map((text) => text.replace(/\d$/, "n")).sort()).toEqual([
      "said one as call n",
      "said two as call n",
    ]);
    expect([...agent.calls].sort()).toEqual(["one", "two"]);
    expect(await turnsOf("t")).toHaveLength(2);
  });

  it("and another one answer at the same time: one of the answers counts", async () => {
    await say("ok", "m-1");
    const replies = await Promise.all([say("yes please", "m-2"), say("yes please", "m-3")]);

    // Where the other one comes once the next question was shown, it answers that.
    expect(replies).toContain("And a tip?");
    expect(agent.paid.filter((what) => what === "900")).toHaveLength(1);
    expect(await turnsOf("t")).toHaveLength(1);
  });
});

it("clients of all protocols speak in one thread at the same time: each is answered, and one answer counts", async () => {
  const all = Object.entries(CHAT_CLIENTS).map(([name, clientOf]) => [name, clientOf(server)] as const);
  const together = (toContent: (name: string) => string, round: string) =>
    Promise.all(all.map(([name, say], at) => textOf(say("t", toContent(name), `${round}-${at}`))));
  await textOf(all[0]![1]("t", "zero", "m-0"));

  const replies = await together((name) => name.replaceAll(/\W/g, "-"), "one");
  expect(replies.map((text) => text.replace(/\d+$/, "n"))).toEqual(
    all.map(([name]) => `said ${name.replaceAll(/\W/g, "-")} as call n`),
  );
  expect(await turnsOf("t")).toHaveLength(all.length + 1);
  await textOf(all[0]![1]("t", "ok", "ask"));
  const answers = await together(() => "yes please", "two");

  expect(answers).toContain("And a tip?");
  expect(agent.paid.filter((what) => what === "900")).toHaveLength(1);
  const again = await together(() => "yes please", "two");
  expect(again).toEqual(answers);
  expect(agent.paid.filter((what) => what === "900")).toHaveLength(1);
});

it("of two answers that come together, the second one is neither an answer to the next question nor a message", async () => {
  const threads = server.service.get(THREADS);
  const say = async (content: string, key: string) => {
    const sent = await threads.send("asker", "t", { content, key, by: { kind: "key" }, via: "test" });
    for await (const event of threads.follow(sent, new AbortController().signal))
      if (event.type === "question") return event.question.question;
    return undefined;
  };
  await say("ok", "m-1");

  expect(await Promise.all([say("yes please", "m-2"), say("yes please", "m-3")])).toEqual([
    "And a tip?",
    "And a tip?",
  ]);
  expect(agent.paid).toEqual(["900"]);
  expect(await turnsOf("t")).toEqual(["ok: awaiting"]);
});

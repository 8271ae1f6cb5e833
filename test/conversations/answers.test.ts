import { defineChat } from "agent-control-service";
import { CASES, JOBS, RUNNER, STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import OpenAI from "openai";
import * as v from "valibot";
import { beforeEach, describe, expect, it } from "vitest";

/** An agent that asks a question for each message that names one, and echoes the others. */
const desk = defineChat({
  name: "Desk",
  version: "1.0.0",
  async reply({ message, messages, turn }) {
    const word = message.split(" ")[0];
    if (word === "refund") {
      const { approved } = await turn.ask("refund", {
        question: "Refund it?",
        fields: v.object({ approved: v.boolean() }),
      });
      return approved ? `refunded ${message}` : `kept ${message}`;
    }
    if (word === "ship") {
      const { city, zip } = await turn.ask("where", {
        question: "Where to?",
        fields: v.object({
          city: v.string(),
          zip: v.pipe(v.string(), v.regex(/^\d{5}$/, "must be 5 digits")),
        }),
      });
      return `to ${zip} ${city}`;
    }
    return `heard ${messages.length}: ${message}`;
  },
});

let server: TestServer;
let client: OpenAI;
beforeEach(async () => {
  server = await testServer({ agents: [desk] });
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });
  return () => server[Symbol.asyncDispose]();
});

type Message = OpenAI.ChatCompletionMessageParam;

/** A conversation that its client keeps, as most chat programs do. */
function converse(more: Partial<OpenAI.ChatCompletionCreateParamsNonStreaming> = {}) {
  const messages: Message[] = [];
  return {
    messages,
    async say(content: string, key?: string): Promise<string> {
      const asked: Message[] = [...messages, { role: "user", content }];
      const headers = key === undefined ? {} : { "Idempotency-Key": key };
      const completion = await client.chat.completions.create(
        { model: "desk", messages: asked, ...more },
        { headers },
      );
      const text = completion.choices[0]!.message.content ?? "";
      messages.splice(0, messages.length, ...asked, { role: "assistant", content: text });
      return text;
    },
  };
}
const jobs = async () => (await server.service.get(JOBS).list({ sort: "created_at" })).items;

describe("a client without threads", () => {
  it("answers a question with its next message, which the same job continues with", async () => {
    const chat = converse();

    const asked = await chat.say("refund 99");
    const answered = await chat.say("sure, go ahead");
    const after = await chat.say("thanks");

    expect(asked).toMatch(/^Refund it\?\n\n\(Reply yes or no\. #[0-9a-f]{16}\)$/);
    expect(answered).toBe("refunded refund 99");
    expect(after).toBe("heard 5: thanks");
    expect((await jobs()).map(({ status, name }) => `${name}: ${status}`)).toHaveLength(2);
  });

  it("answers its own question where another conversation reads the same", async () => {
    const [one, other] = [converse(), converse()];
    await one.say("refund 1");
    await other.say("refund 1");

    expect(await other.say("no thanks")).toBe("kept refund 1");
    expect(await one.say("yes please")).toBe("refunded refund 1");
  });

  it("gets what came of the question where it is answered again, and hears it where that was another answer", async () => {
    const chat = converse();
    await chat.say("refund 7");
    const asked = [...chat.messages];
    const answered = await chat.say("yes");
    const say = async (content: string) => {
      chat.messages.splice(0, chat.messages.length, ...asked);
      return chat.say(content);
    };

    expect(await say("yes")).toBe(answered);
    expect(await say("no")).toBe(
      "The question was answered before by api-key: approved: true.\n\nrefunded refund 7",
    );
    expect(await jobs()).toHaveLength(1);
  });

  it("starts over with its history where the job of the question was stopped", async () => {
    const chat = converse();
    await chat.say("refund 7");
    await server.service.get(RUNNER).stop((await jobs())[0]!.id);
    await expect.poll(async () => (await jobs())[0]!.status).toBe("cancelled");

    expect(await chat.say("yes")).toBe("heard 3: yes");
  });

  it("gets the first response with the same key, whatever has happened since", async () => {
    const chat = converse();
    await chat.say("refund 7", "k-1");
    const asked = [...chat.messages];
    const say = async (content: string, key: string) => {
      chat.messages.splice(0, chat.messages.length, ...asked);
      return chat.say(content, key);
    };

    const unclear = await say("perhaps", "k-2");
    const answered = await say("yes", "k-3");
    const late = await say("no", "k-4");

    expect(unclear).toContain("not understood");
    expect([await say("perhaps", "k-2"), await say("yes", "k-3"), await say("no", "k-4")]).toEqual([
      unclear,
      answered,
      late,
    ]);
    await expect(say("no", "k-3")).rejects.toMatchObject({ status: 409 });
  });
});

describe("a text in a thread", () => {
  const fetchOf = async (thread: string, content: string, more: object = {}) => {
    const body = { model: "desk", messages: [{ role: "user", content }], metadata: { thread_id: thread } };
    const response = await server.request("/v1/chat/completions", { json: body, ...more });
    return ((await response.json()) as OpenAI.ChatCompletion).choices[0]!.message.content;
  };

  it("answers a question only if its sender was shown it", async () => {
    await server.request("/agents/desk/jobs", {
      json: { job_context: { job_id: "t" }, job_fields: { message: "refund 5" } },
    });
    await expect.poll(async () => (await jobs())[0]!.status).toBe("awaiting");

    const first = await fetchOf("t", "yes");
    const again = await fetchOf("t", "yes");
    const meant = await fetchOf("t", "yes, please");

    expect(first).toBe("Refund it?\n\n(Reply yes or no.)");
    // It may be the same request, whose response was lost.
    expect(again).toContain("Refund it?");
    expect(meant).toBe("refunded refund 5");
  });

  it("answers nothing where its history does not have the question", async () => {
    await fetchOf("t", "refund 5");
    const chat = converse({ metadata: { thread_id: "t" } });
    chat.messages.push({ role: "user", content: "hi" }, { role: "assistant", content: "hello" });

    const unseen = await chat.say("yes");
    const seen = await chat.say("yes");

    expect([unseen, seen]).toEqual(["Refund it?\n\n(Reply yes or no.)", "refunded refund 5"]);
  });

  it("that is sent again without a key is not an answer to the question that it has led to", async () => {
    const first = await fetchOf("t", "refund 5");
    const again = [await fetchOf("t", "refund 5"), await fetchOf("t", "refund 5")];

    expect(first).toBe("Refund it?\n\n(Reply yes or no.)");
    for (const text of again) expect(text).toContain("Refund it?");
    expect((await server.service.get(CASES).list()).items.map(({ status }) => status)).toEqual(["awaiting"]);
  });

  it("fills a form with lines, and is asked again with what is wrong", async () => {
    const asked = await fetchOf("t", "ship it");
    const replies = [
      await fetchOf("t", "Paris 75001"),
      await fetchOf("t", "city: Paris\nzip: many"),
      await fetchOf("t", "City: Paris\nZIP: 75001"),
    ];

    expect(asked).toBe("Where to?\n\n(Reply with a line for each: city: …; zip: …)");
    expect(replies).toEqual([
      expect.stringContaining("not understood"),
      expect.stringMatching(/^Where to\?\n\n.*must be 5 digits/),
      "to 75001 Paris",
    ]);
  });

  it("of two clients that answer at the same time counts once", async () => {
    await fetchOf("t", "refund 5");
    const texts = await Promise.all([fetchOf("t", "yes"), fetchOf("t", "no")]);

    const item = (await server.service.get(CASES).list({ sort: "created_at" })).items[0]!;
    const { answer } = item.final_delivery as { answer: string };
    expect(["refunded refund 5", "kept refund 5"]).toContain(answer);
    expect(texts).toContain(answer);
  });
});

it("who was shown which question is removed with the thread", async () => {
  await converse().say("refund 1");
  const [job] = await jobs();
  await server.service.get(RUNNER).stop(job!.id);
  await expect.poll(async () => (await jobs())[0]!.status).toBe("cancelled");
  const rows = server.service.get(STORE).table("ShownQuestion");
  expect(await rows.ids()).toHaveLength(1);

  await server.service.get(RUNNER).remove(job!.id, "a test", { permanent: true });

  expect(await rows.ids()).toEqual([]);
});

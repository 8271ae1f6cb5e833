import { HttpAgent } from "@ag-ui/client";
import type { Case } from "agent-control-service";
import { defineChat } from "agent-control-service";
import { durableTools } from "agent-control-service/ai";
import { testServer } from "agent-control-service/testing";
import { tool } from "ai";
import OpenAI from "openai";
import * as v from "valibot";
import { expect, it } from "vitest";
import { z } from "zod";
import { a2a } from "../../src/a2a.ts";
import { agUi } from "../../src/agui.ts";
import { connect, messageOf, send, shown } from "../a2a/_client.ts";
import { uiChat } from "../http/_ui-chat.ts";

const refunded: number[] = [];
const desk = defineChat({
  name: "Refunds",
  version: "1.0.0",
  async reply({ message, messages, turn }) {
    if (message === "where to?") {
      const { city } = await turn.ask("city", {
        question: "Which city?",
        fields: v.object({ city: v.string() }),
      });
      return `to ${city}`;
    }
    if (message === "refund it") {
      const { refund } = durableTools(turn, {
        refund: {
          ...tool({
            inputSchema: z.object({ order: z.number() }),
            execute: ({ order }) => {
              refunded.push(order);
              return "sent";
            },
          }),
          approval: () => "Refund order 7?",
        },
      });
      const result = await refund.execute!({ order: 7 }, { toolCallId: "c1", messages: [] });
      return `refund: ${result}`;
    }
    return turn.step("model", () => `${message}, after ${messages.length - 1}`);
  },
});

it("one thread has one history for four clients in turn, with a question and an approval on the way", async () => {
  await using server = await testServer({ agents: [desk], plugins: [a2a(), agUi()] });
  const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });
  const ask = async (content: string) => {
    const { choices } = await openai.chat.completions.create({
      ...{ model: "refunds", messages: [{ role: "user" as const, content }], metadata: { thread_id: "t" } },
    });
    return choices[0]!.message.content;
  };
  const window = uiChat(server, { agent: "refunds", id: "t" });
  const url = `${server.url}/ag-ui/refunds`;
  const agUiAgent = new HttpAgent({ url, threadId: "t", headers: { "X-API-Key": server.key } });
  const run = async (id: string, content: string) => {
    agUiAgent.addMessage({ id, role: "user", content });
    return (await agUiAgent.runAgent()).result as unknown;
  };
  const other = await connect(server);
  const delegate = (id: string, text: string, taskId = "") =>
    send(other, { ...messageOf(id, [{ text }], taskId), contextId: "t" });

  const said = [
    await ask("hello"),
    await window.say("and now"),
    await run("m1", "go ahead then"),
    shown(await delegate("d1", "thanks")).artifacts.Result,
  ];
  // Each client asks something that another one answers.
  await ask("where to?");
  await window.say("Rome");
  const answered = await window.say("Rome");
  await window.say("refund it");
  const task = await delegate("d2", "yes");
  const approved = await delegate("d3", "sure, go ahead", task.id);
  said.push(answered, shown(approved).artifacts.Result, await run("m2", "bye"));

  expect(said).toEqual([
    "hello, after 0",
    "and now, after 2",
    "go ahead then, after 4",
    "thanks, after 6",
    "to Rome",
    "refund: sent",
    "bye, after 12",
  ]);
  expect(shown(task).state).toBe("TASK_STATE_INPUT_REQUIRED");
  expect(refunded).toEqual([7]);
  const cases = (await (await server.request("/jobs/t/cases")).json()) as Case[];
  expect(cases.map(({ name, final_delivery }) => [name, final_delivery?.answer])).toEqual(
    ["hello", "and now", "go ahead then", "thanks", "where to?", "refund it", "bye"].map((name, at) => [
      name,
      said[at],
    ]),
  );
});

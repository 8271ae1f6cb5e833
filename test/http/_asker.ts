import { defineChat, NonRetryableError } from "agent-control-service";
import OpenAI from "openai";
import * as v from "valibot";

/**
 * An agent that pays only with a person's approval, asks a reason for refunds, fails where a message is "broken", and counts
 * every other one; one that begins with "slow" is answered once it is released.
 */
export function createAsker() {
  const paid: string[] = [];
  const calls: string[] = [];
  let release = (): void => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const asker = defineChat({
    name: "Asker",
    version: "1.0.0",
    async reply({ message, turn }) {
      if (message === "ok" || message === "yes") {
        const fields = v.object({ approved: v.boolean() });
        const first = await turn.ask("pay", { question: "Pay 900 EUR?", fields });
        if (!first.approved) return "not paid";
        await turn.step("pay", () => void paid.push("900"));
        const second = await turn.ask("tip", { question: "And a tip?", fields });
        if (second.approved) await turn.step("tip", () => void paid.push("tip"));
        return second.approved ? "PAID with a tip" : "PAID";
      }
      if (message.startsWith("refund")) {
        const { reason } = await turn.ask("reason", {
          question: "Why?",
          fields: v.object({ reason: v.string() }),
        });
        return `refunded because: ${reason}`;
      }
      if (message === "both") {
        await turn.ask("both", {
          ...{ question: "Do you agree?", fields: v.object({ agree: v.boolean() }), approvers: 2 },
        });
        return "agreed";
      }
      return turn.step("model", async ({ emit }) => {
        if (message === "broken") throw new NonRetryableError("The model is away");
        calls.push(message);
        if (message.startsWith("slow")) await released;
        const answer = `said ${message} as call ${calls.length}`;
        for (const word of answer.split(/(?<= )/)) emit(word);
        return answer;
      });
    },
  });
  return { asker, paid, calls, release };
}

/** Sends messages to a thread as OpenAI's client does: whole, or as a stream. */
export function chatWith({ url, key }: { readonly url: string; readonly key: string }, maxRetries = 0) {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries });
  return async (thread_id: string | undefined, content: string, idempotencyKey?: string, stream = false) => {
    const request = {
      model: "asker",
      messages: [{ role: "user" as const, content }],
      ...(thread_id !== undefined && { metadata: { thread_id } }),
    };
    const headers = idempotencyKey === undefined ? {} : { "Idempotency-Key": idempotencyKey };
    if (!stream) {
      const { id, created, choices } = await client.chat.completions.create(request, { headers });
      return { id, created, text: choices[0]!.message.content };
    }
    const chunks = await client.chat.completions.create({ ...request, stream: true }, { headers });
    const all: OpenAI.ChatCompletionChunk[] = [];
    for await (const chunk of chunks) all.push(chunk);
    const text = all.map(({ choices }) => choices[0]?.delta.content ?? "").join("");
    return { id: all[0]!.id, created: all[0]!.created, text };
  };
}

import { defineAgent } from "agent-control-service";
import { durable, durableTools } from "agent-control-service/ai";
import { generateText, stepCountIs, tool } from "ai";
import * as v from "valibot";
import { z } from "zod";
import { MODEL_KEYS, type Model } from "./model.ts";

/** Looks up an order by itself, and asks a person before it pays money back. */
export function createAgent(model: Model) {
  return defineAgent({
    name: "{{agent}}",
    version: "0.1.0",
    description: "Handles refunds, which a person approves",
    parameters: MODEL_KEYS,
    methods: {
      job_start: {
        description: "Handle a message of a customer",
        fields: v.object({
          message: v.pipe(
            v.optional(v.string(), "My order 12 arrived broken. I want my money back."),
            v.description("The message"),
          ),
        }),
        async run({ job, fields }) {
          const item = await job.openCase({ id: "message", name: fields.message.slice(0, 80) });
          const { text } = await generateText({
            // Each call is a step: it is made once, whatever happens to this process.
            model: durable(model, item),
            system: "You handle refunds. Look an order up before you refund it.",
            prompt: fields.message,
            stopWhen: stepCountIs(10),
            tools: durableTools(item, {
              order: tool({
                description: "Looks an order up",
                inputSchema: z.object({ id: z.string() }),
                execute: ({ id }) => ({ id, total: 10 * Number(id) }),
              }),
              refund: {
                ...tool({
                  description: "Pays an order back",
                  inputSchema: z.object({ id: z.string(), amount: z.number() }),
                  // Give toolCallId to the payment provider: it is the same in every attempt.
                  execute: ({ id, amount }, { toolCallId }) => `Refunded ${amount} for order ${id} (${toolCallId})`,
                }),
                // Waits for a person, for days if need be: in the admin interface, or with `svc job answer`.
                approval: ({ id, amount }: { id: string; amount: number }) => `Refund ${amount} for order ${id}?`,
              },
            }),
          });
          await item.close({ text });
          return { message: text };
        },
      },
    },
  });
}

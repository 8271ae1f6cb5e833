import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { defineAgent, prices } from "agent-control-service";
import { durable, durableTools } from "agent-control-service/ai";
import { generateText, stepCountIs, tool } from "ai";
import * as v from "valibot";
import { z } from "zod";

const PRICES = prices({ "small-model": { input: 0.25, output: 2 } });

/** What the shop knows, and what it does: a real one would be a database and a payment provider. */
export interface Shop {
  findOrder(id: string): Promise<{ readonly id: string; readonly total: number; readonly state: string }>;
  refund(order: string, amount: number, idempotencyKey: string): Promise<string>;
}

/** An agent of the AI SDK: it looks orders up by itself, and asks a person before it refunds one. */
export function refundAgent(llmUrl: string, shop: Shop) {
  return defineAgent({
    name: "Refund Agent",
    version: "1.0.0",
    parameters: [{ name: "LLM_KEY", is_environment: true }],
    methods: {
      job_start: {
        fields: v.object({ request: v.string() }),
        async run({ job, fields, parameters }) {
          const item = await job.openCase({ id: "request", name: fields.request });
          const provider = createOpenAICompatible({
            name: "openai",
            baseURL: llmUrl,
            ...(parameters.LLM_KEY && { apiKey: parameters.LLM_KEY }),
          });
          const { text } = await generateText({
            model: durable(provider("small-model"), item, { cost: PRICES }),
            system: "You handle refunds. Look an order up before you refund it.",
            prompt: fields.request,
            stopWhen: stepCountIs(10),
            tools: durableTools(item, {
              order: tool({
                description: "Looks an order up",
                inputSchema: z.object({ id: z.string() }),
                execute: ({ id }) => shop.findOrder(id),
              }),
              refund: {
                ...tool({
                  description: "Refunds an order",
                  inputSchema: z.object({ id: z.string(), amount: z.number() }),
                  execute: ({ id, amount }, { toolCallId }) => shop.refund(id, amount, toolCallId),
                }),
                approval: ({ id, amount }: { id: string; amount: number }) =>
                  `Refund ${amount.toFixed(2)} for order ${id}?`,
              },
            }),
          });
          await item.close({ text });
          return { text };
        },
      },
    },
  });
}

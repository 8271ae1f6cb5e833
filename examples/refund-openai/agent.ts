import { Agent, Runner, setTracingDisabled, tool } from "@openai/agents-core";
import { OpenAIResponsesModel } from "@openai/agents-openai";
import { defineAgent, prices } from "agent-control-service";
import { durable, durableTools } from "agent-control-service/ai";
import OpenAI from "openai";
import * as v from "valibot";
import { z } from "zod";
import type { Shop } from "../refund-agent/agent.ts";

const PRICES = prices({ "small-model": { input: 0.25, output: 2 } });

/** The refund agent with the OpenAI Agents SDK. */
export function refundOpenai(llmUrl: string, shop: Shop) {
  // Its traces go to OpenAI; the service has its own.
  setTracingDisabled(true);
  return defineAgent({
    name: "Refund OpenAI",
    version: "1.0.0",
    parameters: [{ name: "LLM_KEY", is_environment: true }],
    methods: {
      job_start: {
        fields: v.object({ request: v.string() }),
        async run({ job, fields, parameters }) {
          const item = await job.openCase({ id: "request", name: fields.request });
          const client = new OpenAI({ baseURL: llmUrl, apiKey: parameters.LLM_KEY ?? "none", maxRetries: 0 });
          const agent = new Agent({
            name: "Refunds",
            instructions: "You handle refunds. Look an order up before you refund it.",
            model: durable(new OpenAIResponsesModel(client, "small-model"), item, { cost: PRICES }),
            tools: durableTools(item, [
              tool({
                name: "order",
                description: "Looks an order up",
                parameters: z.object({ id: z.string() }),
                execute: ({ id }) => shop.findOrder(id),
              }),
              tool({
                name: "refund",
                description: "Refunds an order",
                parameters: z.object({ id: z.string(), amount: z.number() }),
                needsApproval: true,
                execute: ({ id, amount }, _context, details) =>
                  shop.refund(id, amount, details?.toolCall?.callId ?? id),
              }),
            ]),
          });
          const { finalOutput } = await new Runner().run(agent, fields.request);
          await item.close({ text: finalOutput });
          return { text: finalOutput };
        },
      },
    },
  });
}

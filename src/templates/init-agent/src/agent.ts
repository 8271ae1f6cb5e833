import { defineAgent } from "agent-control-service";
import { durable, durableTools } from "agent-control-service/ai";
import { generateText, stepCountIs, tool } from "ai";
import * as v from "valibot";
import { z } from "zod";
import { MODEL_KEYS, type Model } from "./model.ts";

/** What the agent looks up. A real one would ask a database. */
const STOCK: Readonly<Record<string, number>> = { apples: 120, pears: 35, plums: 0 };

/** Answers questions, and looks up what it needs with a tool. */
export function createAgent(model: Model) {
  return defineAgent({
    name: "{{agent}}",
    version: "0.1.0",
    description: "Answers questions about the stock",
    parameters: MODEL_KEYS,
    methods: {
      job_start: {
        description: "Answer a question",
        fields: v.object({
          question: v.pipe(
            v.optional(v.string(), "How many apples and pears are in stock?"),
            v.description("The question"),
          ),
        }),
        async run({ job, fields }) {
          const item = await job.openCase({ id: "question", name: fields.question.slice(0, 80) });
          const { text } = await generateText({
            // Each call is a step: it is made once, whatever happens to this process.
            model: durable(model, item),
            system: "You answer questions about the stock of a greengrocer.",
            prompt: fields.question,
            stopWhen: stepCountIs(10),
            tools: durableTools(item, {
              stock: tool({
                description: "How many pieces of a product are in stock",
                inputSchema: z.object({ product: z.string() }),
                execute: ({ product }) => ({ product, pieces: STOCK[product.toLowerCase()] ?? 0 }),
              }),
            }),
          });
          await item.close({ text });
          return { message: text };
        },
      },
    },
  });
}

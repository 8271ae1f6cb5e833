import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { createServer, defineAgent } from "agent-control-service";
import { durable } from "agent-control-service/ai";
import { modelServer } from "agent-control-service/testing";
import { generateText } from "ai";
import * as v from "valibot";

export const replyDesk = defineAgent({
  name: "Reply Desk",
  version: "1.0.0",
  parameters: [{ name: "LLM_KEY", is_environment: true }],
  methods: {
    job_start: {
      fields: v.object({
        mails: v.optional(v.array(v.string()), ["Where is order 12?", "Please refund order 34."]),
      }),
      async run({ job, fields, parameters }) {
        const model = await openModel(parameters.LLM_KEY);
        const handle = async (mail: string, index: number) => {
          const item = await job.openCase({ id: `mail-${index + 1}`, name: mail });
          const { text } = await generateText({
            model: durable(model, item), // its calls are recorded: none is made, or paid, twice
            prompt: `Draft a short, friendly reply to this mail:\n\n${mail}`,
          });
          const { send } = await item.ask("send", {
            question: `Send this? ${text}`,
            fields: v.object({ send: v.boolean() }),
          });
          await item.close({ reply: send ? text : null });
        };
        await Promise.all(fields.mails.map(handle));
        return { message: `Mails handled: ${fields.mails.length}` };
      },
    },
  },
});

/** The model at LLM_URL. Without that, a stand-in on this machine answers, so this runs without a network. */
async function openModel(apiKey = "") {
  const baseURL = process.env.LLM_URL ?? (await standIn).url;
  return createOpenAICompatible({ name: "openai", baseURL, apiKey })(process.env.LLM_MODEL ?? "stand-in");
}

const standIn = modelServer({
  reply: ({ last }) => `Thank you for writing. We are looking into "${last.text.split("\n").at(-1)}"`,
});

export default createServer({ agents: [replyDesk] });

import { createServer, defineAgent } from "agent-control-service";
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
        const handle = async (mail: string, index: number) => {
          const item = await job.openCase({ id: `mail-${index + 1}`, name: mail });
          const draft = await item.step("draft", ({ signal }) => askModel(mail, parameters.LLM_KEY, signal), {
            retries: 3,
            timeout: "60s",
            cost: 0.002,
          });
          const { send } = await item.ask("send", {
            question: `Send this? ${draft}`,
            fields: v.object({ send: v.boolean() }),
          });
          await item.close({ reply: send ? draft : null });
        };
        await Promise.all(fields.mails.map(handle));
        return { message: `${fields.mails.length} mails handled` };
      },
    },
  },
});

/** Asks a language model for a reply. Without a key, a stand-in answers, so this runs without a network. */
async function askModel(mail: string, key: string | undefined, signal: AbortSignal): Promise<string> {
  if (!key) return `Thank you for writing. We are looking into "${mail}"`;
  const response = await fetch(`${process.env.LLM_URL ?? "https://api.openai.com/v1"}/chat/completions`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify({
      model: process.env.LLM_MODEL ?? "gpt-4.1-mini",
      messages: [
        { role: "user", content: `Draft a short, friendly reply to this customer mail:\n\n${mail}` },
      ],
    }),
    signal,
  });
  if (!response.ok) throw new Error(`The model answered ${response.status}`);
  const { choices } = (await response.json()) as { choices: [{ message: { content: string } }] };
  return choices[0].message.content;
}

export default createServer({ agents: [replyDesk] });

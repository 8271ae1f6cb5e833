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
          const request = {
            model: process.env.LLM_MODEL ?? "gpt-4.1-mini",
            messages: [{ role: "user", content: `Draft a short, friendly reply to this mail:\n\n${mail}` }],
          };
          const answer = await item.model(
            "draft",
            request,
            (body, { signal }) => askModel(body, parameters.LLM_KEY, signal),
            { provider: "openai", retries: 3, timeout: "60s" },
          );
          const draft = answer.choices[0].message.content;
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

interface Request {
  model: string;
  messages: { role: string; content: string }[];
}
interface Answer {
  choices: [{ message: { content: string } }];
  usage: { prompt_tokens: number; completion_tokens: number };
}

/** Asks a language model for a reply. Without a key, a stand-in answers, so this runs without a network. */
async function askModel(request: Request, key: string | undefined, signal: AbortSignal): Promise<Answer> {
  if (!key) {
    const content = `Thank you for writing. We are looking into "${request.messages[0]!.content.split("\n").at(-1)}"`;
    return { choices: [{ message: { content } }], usage: { prompt_tokens: 0, completion_tokens: 0 } };
  }
  const response = await fetch(`${process.env.LLM_URL ?? "https://api.openai.com/v1"}/chat/completions`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify(request),
    signal,
  });
  if (!response.ok) throw new Error(`The model answered ${response.status}`);
  return (await response.json()) as Answer;
}

export default createServer({ agents: [replyDesk] });

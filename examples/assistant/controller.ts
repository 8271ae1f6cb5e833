import { mkdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer, defineAgent } from "agent-control-service";
import * as v from "valibot";
import { complete, openStream } from "./model.ts";

const draftsOf = (jobId: string) => join(tmpdir(), "assistant-drafts", jobId);

/** Writes chapters that a person approves, and chats in between. */
export const assistant = defineAgent({
  name: "Assistant",
  version: "1.0.0",
  parameters: [{ name: "LLM_KEY", is_environment: true }],
  methods: {
    job_start: {
      description: "Write one chapter for each topic",
      fields: v.object({ topics: v.optional(v.array(v.string()), ["Rye", "Wheat"]) }),
      async run({ job, fields, parameters }) {
        for (const topic of fields.topics) {
          const item = await job.openCase({ id: topic.toLowerCase(), name: topic });
          const text = await item.step(
            "write",
            ({ signal }) => complete(`Write a paragraph about ${topic}.`, parameters.LLM_KEY, signal),
            { retries: 3, timeout: "2m", cost: 0.01 },
          );
          await item.step("save", () => save(draftsOf(job.id), `${item.ref}.txt`, text));
          const { verdict } = await item.ask("print", {
            question: `Print this? ${text}`,
            fields: v.object({ verdict: v.picklist(["print", "drop"]) }),
          });
          await item.close({ verdict, text });
        }
        return { message: `Chapters done: ${fields.topics.length}` };
      },
    },
    chat: {
      description: "Talk to the assistant; the answer streams",
      fields: v.object({ message: v.string() }),
      async run({ fields, parameters, signal }) {
        const stream = await openStream(fields.message, parameters.LLM_KEY, signal);
        return new Response(stream, { headers: { "Content-Type": "text/event-stream" } });
      },
    },
    job_stop: {
      async run({ job, log }) {
        await rm(draftsOf(job.id), { recursive: true, force: true });
        log.info("drafts removed");
      },
    },
    human_answer: {
      run({ case: item, answer, message, log }) {
        log.info("a person has decided", { case: item.id, verdict: answer.verdict, message });
      },
    },
    job_status: {
      run({ job }) {
        return { message: job ? `Chapters started: ${job.case_ids.length}` : "No such job" };
      },
    },
    custom: {
      count_words: {
        fields: v.object({ text: v.string() }),
        run: ({ fields }) => ({ words: fields.text.split(/\s+/).length }),
      },
    },
  },
});

async function save(folder: string, file: string, text: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, file), text);
}

export default createServer({ agents: [assistant] });

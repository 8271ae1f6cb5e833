import { defineAgent } from "agent-control-service";
import * as v from "valibot";

/** Counts the words of texts, and asks a person about the long ones. */
export const agent = defineAgent({
  name: "{{agent}}",
  version: "0.1.0",
  description: "Counts words, and asks a person about long texts",
  methods: {
    job_start: {
      description: "Count the words of some texts",
      fields: v.object({
        texts: v.pipe(v.optional(v.array(v.string()), ["To be, or not to be", "Hello"]), v.description("The texts")),
        limit: v.pipe(v.optional(v.number(), 5), v.description("Ask about texts with more words than this")),
      }),
      async run({ job, fields }) {
        let total = 0;
        for (const [index, text] of fields.texts.entries()) {
          const item = await job.openCase({ id: `text-${index + 1}`, name: text.slice(0, 60) });
          // A step runs once: after a crash or a restart it answers from its record.
          const words = await item.step("count", () => text.split(/\s+/).length);
          if (words > fields.limit) {
            // Waits for a person, in the admin interface or with `svc job answer`; here for at most a minute.
            const answer = await item.ask("keep", {
              question: `Keep "${text}"? Words: ${words}`,
              fields: v.object({ keep: v.boolean() }),
              deadline: "1m",
              onTimeout: "default",
              default: { keep: true },
            });
            if (!answer.keep) {
              await item.close({ words, kept: false });
              continue;
            }
          }
          total += words;
          await item.close({ words, kept: true });
        }
        return { message: `Words: ${total}`, total };
      },
    },
  },
});

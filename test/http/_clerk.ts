import { defineAgent } from "agent-control-service";
import * as v from "valibot";

/** An agent that does what the field `mode` says, for tests of the routes. */
export const clerk = defineAgent({
  name: "Clerk",
  version: "1.2.3",
  description: "Follows its instructions",
  author: "Ada",
  tags: ["test"],
  parameters: [
    {
      name: "TOKEN",
      description: "Opens the drawer",
      is_secret: true,
      is_required: true,
      value: "declared-secret-value",
    },
    { name: "COLOUR", is_secret: false },
  ],
  methods: {
    job_start: {
      description: "Works",
      fields: v.object({
        mode: v.picklist(["greet", "wait", "ask", "fail"]),
        count: v.optional(v.pipe(v.number(), v.integer()), 1),
      }),
      async run({ job, fields, signal, parameters }) {
        if (fields.mode === "fail") throw new Error("The ink is out");
        if (fields.mode === "wait") {
          await new Promise((_, reject) => {
            signal.addEventListener("abort", () => reject(signal.reason), { once: true });
          });
        }
        if (fields.mode === "ask") {
          const item = await job.openCase({ id: "question", name: "A question", description: "Asks" });
          const answer = await item.ask({ question: "Continue?", fields: v.object({ yes: v.boolean() }) });
          await item.close({ yes: answer.yes });
        }
        return { message: `done ${fields.count}`, opened: parameters.TOKEN !== undefined };
      },
    },
    job_status: { run: ({ job }) => ({ message: `It is ${job?.status ?? "unknown"}` }) },
    chat: { run: ({ params }) => ({ echo: params.text ?? null }) },
    custom: {
      reverse: { run: ({ params }) => ({ message: [...String(params.text)].reverse().join("") }) },
    },
  },
});

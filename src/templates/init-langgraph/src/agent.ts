import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { type CaseHandle, defineAgent } from "agent-control-service";
import { durable } from "agent-control-service/ai";
import { generateText } from "ai";
import * as v from "valibot";
import { MODEL_KEYS, type Model } from "./model.ts";

const State = Annotation.Root({
  topic: Annotation<string>,
  facts: Annotation<string>,
  remark: Annotation<string>,
  text: Annotation<string>,
  approved: Annotation<boolean>,
});

/**
 * The graph of one case. Its nodes work in steps and questions of the case, so it needs no checkpointer: after a restart
 * the nodes run again, and what is recorded is not done again.
 */
function createGraph(model: Model, item: CaseHandle) {
  const complete = async (name: string, prompt: string): Promise<string> =>
    (await generateText({ model: durable(model, item, { name }), prompt })).text;

  return new StateGraph(State)
    .addNode("research", async ({ topic }) => ({
      facts: await complete("research", `List three facts about ${topic}.`),
    }))
    .addNode("write", async ({ facts, remark }) => ({
      text: await complete("write", `Write a paragraph from these facts. ${remark} ${facts}`),
    }))
    .addNode("review", ({ text }) =>
      // Waits for a person, for days if need be: in the admin interface, or with `svc job answer`.
      item.ask("review", {
        question: `Publish this? ${text}`,
        fields: v.object({ approved: v.boolean(), remark: v.optional(v.string(), "") }),
      }),
    )
    .addEdge(START, "research")
    .addEdge("research", "write")
    .addEdge("write", "review")
    .addConditionalEdges("review", ({ approved }) => (approved ? END : "write"))
    .compile();
}

/** Writes a paragraph about a topic, again and again until a person approves it. */
export function createAgent(model: Model) {
  return defineAgent({
    name: "{{agent}}",
    version: "0.1.0",
    description: "Writes paragraphs, which a person approves",
    parameters: MODEL_KEYS,
    methods: {
      job_start: {
        description: "Write a paragraph",
        fields: v.object({ topic: v.pipe(v.optional(v.string(), "rye bread"), v.description("Its topic")) }),
        async run({ job, fields }) {
          const item = await job.openCase({ id: "paragraph", name: fields.topic.slice(0, 80) });
          const { text } = await createGraph(model, item).invoke({ topic: fields.topic, remark: "" });
          await item.close({ text });
          return { message: text };
        },
      },
    },
  });
}

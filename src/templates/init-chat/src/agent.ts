import { defineChat } from "agent-control-service";
import { durable } from "agent-control-service/ai";
import { streamText } from "ai";
import { MODEL_KEYS, type Model } from "./model.ts";

/** Talks with people. Each thread is a job, each message a case with the steps of its answer. */
export function createAgent(model: Model) {
  return defineChat({
    name: "{{agent}}",
    version: "0.1.0",
    description: "Talks about anything",
    parameters: MODEL_KEYS,
    async reply({ messages, turn, signal }) {
      let failure: unknown;
      const { text } = streamText({
        // Each call is a step: its tokens are sent as they come, and it is made once, whatever happens to this process.
        model: durable(model, turn),
        system: "You are a helpful assistant. Answer in a few sentences.",
        messages: [...messages],
        abortSignal: signal,
        // What `text` rejects with does not say why.
        onError: ({ error }) => {
          failure = error;
        },
      });
      try {
        return await text;
      } catch (error) {
        throw failure ?? error;
      }
    },
  });
}

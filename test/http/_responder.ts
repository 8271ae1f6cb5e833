import { defineChat, NonRetryableError } from "agent-control-service";
import * as v from "valibot";

/** An agent that repeats what was said before, asks before it refunds, uses a tool, and fails. */
export function createResponder() {
  const calls: string[] = [];
  const refunded: string[] = [];
  const responder = defineChat({
    name: "Responder",
    version: "1.0.0",
    async reply({ message, messages, turn, job }) {
      if (message.startsWith("refund")) {
        const { approved } = await turn.ask("refund", {
          question: "Refund 5 euros?",
          fields: v.object({ approved: v.boolean() }),
        });
        if (!approved) return "It is not refunded.";
        await turn.step("pay", () => void refunded.push(message));
        return "It is refunded.";
      }
      if (message === "broken")
        await turn.step("model", () => Promise.reject(new NonRetryableError("The model is away")));
      if (message === "wait") await job.waitFor("resume.it");
      if (message === "find") {
        const options = { kind: "tool", input: { order: 7 } } as const;
        const { found } = await turn.step("lookup", () => ({ found: ["rye"] }), options);
        return `Found ${found.join()}.`;
      }
      return turn.step("model", ({ emit }) => {
        calls.push(message);
        const before = messages.slice(0, -1).map(({ role, content }) => `${role}: ${content}`);
        const answer = `You said ${message} after [${before.join("; ")}]`;
        for (const word of answer.split(/(?<= )/)) emit(word);
        return answer;
      });
    },
  });
  return { responder, calls, refunded };
}

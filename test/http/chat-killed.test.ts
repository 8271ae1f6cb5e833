// @losses
import { defineChat } from "agent-control-service";
import { crashTest, modelServer } from "agent-control-service/testing";
import { expect, it } from "vitest";

/** A thread that gets three messages, one after the other: a model answers each, the second one after a question. */
function deskOf(url: string) {
  let seen = 0;
  const desk = defineChat({
    name: "Desk",
    version: "1.0.0",
    idle: "1h",
    async reply({ message, messages, turn }) {
      seen = messages.filter(({ role }) => role === "user").length;
      const order = await turn.step("order", () => `order ${messages.length}`);
      let asked = "";
      if (message === "message 2") {
        const fields = [{ name: "approved", field_type: "BooleanField" as const }];
        const { approved } = await turn.ask("refund", { question: `Refund ${order}?`, fields });
        asked = approved ? ", refunded" : ", refused";
      }
      const content = `${messages.map((one) => `${one.role}: ${one.content}`).join("; ")}; ${order}${asked}`;
      const request = { model: "small-model", messages: [{ role: "user", content }] };
      const answer = await turn.model("answer", request, async (body, { idempotencyKey, emit }) => {
        const response = await fetch(`${url}/chat/completions`, {
          method: "POST",
          headers: { "Content-Type": "application/json", "Idempotency-Key": idempotencyKey },
          body: JSON.stringify(body),
        });
        const made = (await response.json()) as { choices: [{ message: { content: string } }] };
        emit(made.choices[0].message.content);
        return made;
      });
      return `${message} answered (${answer.choices[0].message.content.length})`;
    },
  });
  // The next message is sent once the thread waits for it, and none after the third.
  const events = {
    get "chat.job-1"() {
      return (seen < 3 ? { content: `message ${seen + 1}` } : undefined) as { content: string };
    },
  };
  return { desk, events };
}

it("a thread that is killed at every recorded line answers each message once, and pays each model call once", async () => {
  await using model = await modelServer();
  const { desk, events } = deskOf(model.url);

  const report = await crashTest(desk, {
    fields: { message: "message 1" },
    events,
    answers: { refund: { approved: true } },
  });

  expect(report.interruptions).toBeGreaterThan(25);
  const asked = model.paid.map(({ last }) => last.text);
  expect(asked).toHaveLength(3);
  expect(asked[1]).toMatch(
    /^user: message 1; assistant: message 1 answered \(\d+\); user: message 2; order 3, refunded$/,
  );
  expect(asked[2]).toMatch(
    /user: message 2; assistant: message 2 answered \(\d+\); user: message 3; order 5$/,
  );
  expect(model.paidTwice).toEqual([]);
});

import { defineChat } from "agent-control-service";
import * as v from "valibot";
import { expect, it } from "vitest";
import { start } from "./_in-process.ts";

const clerk = defineChat({
  name: "Clerk",
  version: "1.0.0",
  async reply({ message, messages, turn }) {
    if (message === "ask") {
      await turn.ask("pay", { question: "Pay it?", fields: v.object({ approved: v.boolean() }) });
    }
    if (message === "break") throw new Error("The model is away");
    await turn.step("lookup", () => 1, { kind: "tool" });
    return turn.step("model", ({ emit }) => {
      emit("Message ");
      emit("number ");
      return `Message number ${messages.length}`;
    });
  },
});

it("svc chat sends a message, prints the answer, and continues the thread", async () => {
  await using world = await start({ agents: [clerk] });
  const { svc } = world;

  const first = await svc("chat", "clerk", "--message", "hello");
  const thread = /--thread (\S+)/.exec(first.text)![1]!;
  const second = await svc("chat", "clerk", "--thread", thread, "-m", "again");
  const json = await svc("chat", "clerk", "--thread", thread, "-m", "third", "--json");

  expect(first).toMatchObject({
    code: 0,
    text: expect.stringMatching(/^· lookup\nMessage number 1\nContinue/),
  });
  expect(second).toMatchObject({ code: 0, text: expect.stringContaining("Message number 3\n") });
  expect(JSON.parse(json.text)).toEqual({ message: "third", answer: "Message number 5" });
});

it("svc chat says what it cannot do: a failed answer, a question without a terminal, an unknown agent", async () => {
  await using world = await start({ agents: [clerk] });
  const { svc } = world;

  const broken = await svc("chat", "clerk", "-m", "break");
  const asked = await svc("chat", "clerk", "-m", "ask");
  const unknown = await svc("chat", "nobody", "-m", "hello");
  const noTerminal = await svc("chat", "clerk");
  const noThread = await svc("chat", "clerk", "--thread", "job-0", "-m", "hello");

  expect(broken).toMatchObject({
    code: 1,
    text: expect.stringContaining("The answer failed: The model is away"),
  });
  expect(asked).toMatchObject({ code: 1, text: expect.stringContaining("svc job answer") });
  expect(unknown).toMatchObject({ code: 2, text: expect.stringContaining("Chat agents: clerk") });
  expect(noTerminal).toMatchObject({ code: 2, text: expect.stringContaining("--message") });
  expect(noThread).toMatchObject({ code: 1, text: expect.stringContaining('There is no thread "job-0"') });
});

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defineAgent, defineChat } from "agent-control-service";
import { JOBS } from "agent-control-service/plugin";
import type { TestServer } from "agent-control-service/testing";
import * as v from "valibot";
import { expect, it, onTestFinished } from "vitest";
import { banner as bannerOf } from "../../src/cli/banner.ts";
import { start } from "./_in-process.ts";

const waiter = defineAgent({
  name: "Waiter",
  version: "1.0.0",
  methods: { job_start: { run: ({ job }) => job.waitFor("payment", { deadline: "1d" }) } },
});

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

it("svc chat sends files with a message", async () => {
  const reader = defineChat({
    name: "Clerk",
    version: "1.0.0",
    reply: ({ message, files, job, turn }) =>
      turn.step("read", async () => {
        const texts = await Promise.all(
          files.map(async (one) => `${one.name}=${await job.open(one).text()}`),
        );
        return `${message} ${texts.join(", ")}`;
      }),
  });
  await using world = await start({ agents: [reader] });
  const { svc } = world;
  const folder = await mkdtemp(join(tmpdir(), "chat-files-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const [a, b] = [join(folder, "a.txt"), join(folder, "b.txt")];
  await Promise.all([writeFile(a, "one"), writeFile(b, "two")]);

  const sent = await svc("chat", "clerk", "-m", "read", "--file", a, "--file", b);
  const missing = await svc("chat", "clerk", "-m", "read", "--file", join(folder, "c.txt"));
  const alone = await svc("chat", "clerk", "--file", a);

  expect(sent).toMatchObject({ code: 0, text: expect.stringContaining("read a.txt=one, b.txt=two\n") });
  expect(missing).toMatchObject({ code: 2, text: expect.stringContaining("cannot be read") });
  expect(alone).toMatchObject({ code: 2, text: expect.stringMatching(/terminal|--message/) });
});

it("svc chat sends a message with an id once, and prints its answer each time", async () => {
  await using world = await start({ agents: [clerk] });
  const { svc } = world;
  const first = await svc("chat", "clerk", "--message", "hello");
  const thread = /--thread (\S+)/.exec(first.text)![1]!;
  const send = (...more: string[]) => svc("chat", "clerk", "--thread", thread, "--json", ...more);

  const sent = await send("-m", "again", "--id", "m-1");
  await send("-m", "later");
  const repeated = await send("-m", "again", "--id", "m-1");
  const other = await send("-m", "else", "--id", "m-1");
  const alone = await svc("chat", "clerk", "-m", "hello", "--id", "m-1");

  expect(JSON.parse(sent.text)).toEqual({ message: "again", answer: "Message number 3" });
  expect(repeated).toMatchObject({ code: 0, text: sent.text });
  expect(other).toMatchObject({ code: 1, text: expect.stringContaining("different content") });
  expect(alone).toMatchObject({ code: 2, text: expect.stringContaining("--thread") });
  expect(JSON.parse((await send("-m", "last")).text)).toMatchObject({ answer: "Message number 7" });
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
  expect(noThread).toMatchObject({ code: 1, text: expect.stringContaining('"job-0" does not exist') });
});

it("svc chat answers a question in words, once, where it has shown it", async () => {
  await using world = await start({ agents: [clerk] });
  const { svc } = world;
  await svc("job", "start", "clerk", "--id", "t");
  const say = (text: string, id: string) =>
    svc("chat", "clerk", "--thread", "t", "--json", "-m", text, "--id", id);

  const asked = await say("ask", "m-1");
  const unclear = await say("perhaps", "m-2");
  const repeated = await say("ask", "m-1");
  const answered = await say("sure, go ahead", "m-3");
  const again = await say("sure, go ahead", "m-3");
  const broken = await say("break", "m-4");

  expect(JSON.parse(asked.text)).toMatchObject({ question: "Pay it?" });
  expect([asked.code, unclear, repeated]).toEqual([1, asked, asked]);
  expect(JSON.parse(answered.text)).toEqual({ message: "ask", answer: "Message number 1" });
  expect(again).toEqual(answered);
  expect(await say("break", "m-4")).toEqual(broken);
  expect(JSON.parse((await say("next", "m-5")).text)).toMatchObject({ answer: "Message number 4" });
});

it("a command that starts a thread says that it waits for a message, and how to send one", async () => {
  await using world = await start({ agents: [clerk, waiter] });
  const { server, svc } = world;

  const begun = await svc("job", "start", "clerk", "--id", "thread-1");
  const shown = await svc("agent", "show", "clerk");
  const banner = await bannerOf(server.service, { cwd: server.dataDir, interactive: false });
  const watched = svc("job", "watch", "thread-1");
  await expect.poll(() => isWaiting(server, "thread-1")).toBe(true);
  const waited = svc("job", "start", "waiter", "--id", "waiter-1", "--wait");
  await expect.poll(() => isWaiting(server, "waiter-1")).toBe(true);
  for (const id of ["thread-1", "waiter-1"]) await svc("job", "stop", id);

  expect(begun.text).toContain("npx svc chat clerk --thread thread-1");
  expect(shown.text).toContain("Chat: npx svc chat clerk");
  expect(banner).toMatch(/^ {2}npx svc chat clerk$/m);
  expect(banner).toMatch(/^ {2}npx svc job start waiter --wait$/m);
  expect((await watched).text).toContain("waits for a message: npx svc chat clerk --thread thread-1");
  expect((await waited).text).toMatch(/waits for an event until \S+ \S+ UTC: npx svc event send payment/);
});

async function isWaiting({ service }: TestServer, job: string): Promise<boolean> {
  const log = await service.get(JOBS).log(job);
  return log.some(({ entry }) => entry.type === "begun" && entry.call === "event");
}

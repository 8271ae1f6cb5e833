import { client } from "agent-control-service/client";
import { CASES, RUNNER, STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { beforeEach, expect, it } from "vitest";
import { createAsker } from "../http/_asker.ts";

let server: TestServer;
let agent: ReturnType<typeof createAsker>;
beforeEach(async () => {
  agent = createAsker();
  server = await testServer({ agents: [agent.asker] });
  return () => server[Symbol.asyncDispose]();
});

const start = async (message: string) => {
  const job = await client(server.url, server.key).start("asker", { message });
  const asking = async () => (await job.cases()).find(({ question }) => question);
  await expect.poll(asking).toBeTruthy();
  return { job, asked: (await asking())!, asking };
};
const turns = async (job_id: string) =>
  (await server.service.get(CASES).list({ where: { job_id }, sort: "created_at" })).items.map(
    ({ name, status }) => `${name}: ${status}`,
  );

it("a message answers, in a person's words, the question that it names", async () => {
  const { job, asked, asking } = await start("ok");

  expect(await job.reply(asked, "sure, go ahead")).toEqual({ accepted: true, note: null });

  await expect.poll(async () => (await asking())?.question?.question).toBe("And a tip?");
  expect(agent.paid).toEqual(["900"]);
  expect(await turns(job.id)).toEqual(["ok: awaiting"]);
});

it("a message that is no clear answer changes nothing, and says why", async () => {
  const { job, asked, asking } = await start("ok");

  expect(await job.reply(asked, "only half of it")).toEqual({
    ...{ accepted: false, note: "The reply was not understood as an answer." },
  });

  expect((await asking())?.question).toEqual(asked.question);
  expect(await turns(job.id)).toEqual(["ok: awaiting"]);
});

it("an answer that is sent again answers no later question, and has the first outcome, also after a crash", async () => {
  const { job, asked, asking } = await start("ok");
  const id = "m-1";
  const first = await job.reply(asked, "yes", { id });
  await expect.poll(async () => (await asking())?.question?.question).toBe("And a tip?");

  expect(await job.reply(asked, "yes", { id })).toEqual(first);
  await server.crash();
  const again = client(server.url, server.key).job(job.id);
  expect(await again.reply(asked, "yes", { id })).toEqual(first);
  await expect(again.reply(asked, "no", { id })).rejects.toMatchObject({ status: 409 });

  expect(agent.paid).toEqual(["900"]);
  expect((await again.cases())[0]?.question?.question).toBe("And a tip?");
});

it("an answer to a question that another one has followed is not accepted, and to one that is over it is refused", async () => {
  const { job, asked, asking } = await start("ok");
  await job.answer(asked.id, { approved: true });
  await expect.poll(async () => (await asking())?.question?.question).toBe("And a tip?");

  expect(await job.reply(asked, "yes")).toEqual({
    ...{ accepted: false, note: "The thread asks something else by now." },
  });
  await job.answer(asked.id, { approved: false });
  await expect.poll(() => turns(job.id)).toEqual(["ok: completed"]);
  await expect(job.reply(asked, "yes")).rejects.toMatchObject({
    ...{ status: 409, message: expect.stringContaining("no longer open") },
  });

  expect(await turns(job.id)).toEqual(["ok: completed"]);
  expect(agent.paid).toEqual(["900"]);
});

it("a message that names no question answers none", async () => {
  const { job, asked, asking } = await start("ok");

  await job.send("yes");

  expect((await asking())?.question).toEqual(asked.question);
  expect(agent.paid).toEqual([]);
});

it("a token that may only send messages answers nothing", async () => {
  const { job, asked } = await start("ok");
  const { token } = await job.token({ scopes: ["status", "message"] });
  const both = await job.token({ scopes: ["status", "message", "answer"], name: "Mira" });
  const withToken = (given: string) => client(server.url, given).job(job.id);

  await expect(withToken(token).reply(asked, "yes")).rejects.toMatchObject({ status: 403 });
  expect(agent.paid).toEqual([]);
  expect(await withToken(both.token).reply(asked, "yes")).toMatchObject({ accepted: true });
});

it("messages of a deleted thread remain while it can be restored, and are removed with it", async () => {
  const runner = server.service.get(RUNNER);
  const store = server.service.get(STORE);
  const kept = async () => {
    const { items } = await store.table("ReceivedEvent").list();
    return items.map(({ data }) => data.content).sort();
  };
  const talk = async (id: string) => {
    const thread = client(server.url, server.key);
    const job = await thread.start("asker", { message: "hello" }, { id });
    await job.send(`a secret of ${id}`);
    await expect.poll(() => turns(id)).toHaveLength(2);
  };
  await talk("one");
  await talk("two");
  await talk("three");

  await runner.remove("one", { kind: "key" });
  await runner.remove("two", { kind: "key" });
  await runner.remove("three", { kind: "key" }, { permanent: true });
  expect(await kept()).toEqual(["a secret of one", "a secret of two"]);
  await runner.restore("one", { kind: "key" });
  await runner.remove("two", { kind: "key" }, { permanent: true });

  expect(await kept()).toEqual(["a secret of one"]);
  expect(await store.table("EventName").ids()).toEqual(["chat.one"]);
});

import { createServer as createHttpServer, request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";
import type { Case } from "agent-control-service";
import { CASES, JOBS, RUNNER, STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { chatWith, createAsker } from "./_asker.ts";

let server: TestServer;
let agent: ReturnType<typeof createAsker>;
let say: ReturnType<typeof chatWith>;
beforeEach(async () => {
  agent = createAsker();
  server = await testServer({ agents: [agent.asker] });
  say = chatWith(server);
  return () => server[Symbol.asyncDispose]();
});

const turns = async (thread: string) =>
  (await server.service.get(CASES).list({ where: { job_id: thread }, sort: "created_at" })).items.map(
    ({ name, status }) => `${name}: ${status}`,
  );
const stop = async (thread: string) => {
  await server.request("/agents/asker/stop", { json: { job_context: { job_id: thread } } });
  await expect.poll(async () => (await server.service.get(JOBS).get(thread)).status).toBe("cancelled");
};

describe.each([
  ["whole", false],
  ["as a stream", true],
] as const)("a chat request with a key that is sent again, %s", (_, stream) => {
  it("does not answer its own question, and gets the question again", async () => {
    const first = await say("t", "ok", "k-1", stream);
    const again = await say("t", "ok", "k-1", stream);

    expect(first.text).toContain("Pay 900 EUR?");
    expect(again).toEqual(first);
    expect(agent.paid).toEqual([]);
    expect(await turns("t")).toEqual(["ok: awaiting"]);
  });

  it("that is a later message does not answer its own question", async () => {
    await say("t", "hello", "k-0", stream);
    const first = await say("t", "refund order 34", "k-1", stream);
    const again = await say("t", "refund order 34", "k-1", stream);

    expect(again).toEqual(first);
    expect(first.text).toContain("Why?");
    expect(await turns("t")).toEqual(["hello: completed", "refund order 34: awaiting"]);
  });

  it("that is an answer gets what followed the answer, and answers no later question", async () => {
    await say("t", "ok", "k-1", stream);
    const first = await say("t", "yes", "k-2", stream);
    const again = await say("t", "yes", "k-2", stream);
    const last = await say("t", "no", "k-3", stream);
    const after = [
      await say("t", "ok", "k-1", stream),
      await say("t", "yes", "k-2", stream),
      await say("t", "no", "k-3", stream),
    ];

    expect(first.text).toContain("And a tip?");
    expect(again).toEqual(first);
    expect(last.text).toBe("PAID");
    expect(after.map(({ text }) => text)).toEqual([
      expect.stringContaining("Pay 900 EUR?"),
      expect.stringContaining("And a tip?"),
      "PAID",
    ]);
    expect(agent.paid).toEqual(["900"]);
    expect(await turns("t")).toEqual(["ok: completed"]);
  });

  it("adds no turn and calls no model, whether it is the first message of its thread or a later one", async () => {
    const first = await say("t", "one", "k-1", stream);
    const second = await say("t", "two", "k-2", stream);
    await say("t", "three", "k-3", stream);

    expect(await say("t", "one", "k-1", stream)).toEqual(first);
    expect(await say("t", "two", "k-2", stream)).toEqual(second);
    expect(first.text).toBe("said one as call 1");
    expect(second.text).toBe("said two as call 2");
    expect(agent.calls).toEqual(["one", "two", "three"]);
  });

  it("gets the same after a crash, and after its thread has ended", async () => {
    const first = await say("t", "one", "k-1", stream);
    const second = await say("t", "ok", "k-2", stream);
    const third = await say("t", "yes", "k-3", stream);
    await server.crash();
    const crashed = chatWith(server);
    const repeat = async () => [
      await crashed("t", "one", "k-1", stream),
      await crashed("t", "ok", "k-2", stream),
      await crashed("t", "yes", "k-3", stream),
    ];

    expect(await repeat()).toEqual([first, second, third]);
    await stop("t");
    expect(await repeat()).toEqual([first, second, third]);
    expect(agent.paid).toEqual(["900"]);
  });

  it("without a thread gets the question again, also where it was answered since", async () => {
    const first = await say(undefined, "ok", "k-1", stream);
    const [job] = (await server.service.get(JOBS).list()).items;
    await say(job!.id, "no", "k-2", stream);

    expect(await say(undefined, "ok", "k-1", stream)).toEqual(first);
    expect(first.text).toContain("Pay 900 EUR?");
    expect((await server.service.get(JOBS).list()).total).toBe(1);
  });

  it("at the same time as the first has one effect, and each gets its response", async () => {
    const many = (content: string, key: string) =>
      Promise.all(Array.from({ length: 6 }, () => say("t", content, key, stream)));

    const texts = [];
    for (const content of ["one", "two", "ok", "yes"]) texts.push(await many(content, `k-${content}`));

    for (const same of texts) expect(new Set(same.map(({ text }) => text)).size).toBe(1);
    expect(agent.calls).toEqual(["one", "two"]);
    expect(agent.paid).toEqual(["900"]);
    expect(await turns("t")).toEqual(["one: completed", "two: completed", "ok: awaiting"]);
  });
});

it("another message with the same key is refused, whatever the first one was", async () => {
  await say("t", "one", "k-1");
  await say("t", "ok", "k-2");
  await say("t", "yes", "k-3");

  for (const key of ["k-1", "k-2", "k-3"])
    await expect(say("t", "no", key)).rejects.toMatchObject({
      ...{ status: 409, message: expect.stringMatching(/already exists with different content/) },
    });
  expect(agent.paid).toEqual(["900"]);
  expect(await turns("t")).toEqual(["one: completed", "ok: awaiting"]);
});

it("a key is one of its thread", async () => {
  const texts = [];
  for (const thread of ["t-1", "t-2", undefined]) texts.push((await say(thread, "hello", "k-1")).text);

  expect(texts).toEqual(["said hello as call 1", "said hello as call 2", "said hello as call 3"]);
});

it("what is kept of a thread's requests is removed with it", async () => {
  await say("t", "hello", "k-0");
  await say("t", "ok", "k-1");
  await stop("t");
  const rows = server.service.get(STORE).table("KeyedRequest");
  expect(await rows.ids()).toHaveLength(1);

  await server.service.get(RUNNER).remove("t", "a test", { permanent: true });

  expect(await rows.ids()).toEqual([]);
});

it("a message that was stored by version 0.1.0 is neither added again nor an answer", async () => {
  await say("t", "hello", "k-0");
  const first = await say("t", "refund 1", "k-1");
  const rows = server.service.get(STORE).table("KeyedRequest");
  for (const id of await rows.ids()) await rows.remove(id);

  const again = await say("t", "refund 1", "k-1");

  expect(again.text).toBe(first.text);
  expect(await turns("t")).toEqual(["hello: completed", "refund 1: awaiting"]);
});

it("an answer that several people must give says how many have given it, each time it is sent", async () => {
  await say("t", "both", "k-1");
  const first = await say("t", "yes", "k-2");
  const again = await say("t", "yes", "k-2");

  expect(first.text).toContain("1 of 2 people agree");
  expect(again).toEqual(first);
  const [item] = (await server.service.get(CASES).list()).items;
  expect(item?.question?.approvals).toHaveLength(1);
});

describe("a client that sends a request again by itself, without a key", () => {
  /** Passes requests on, and loses the response to the first of them that contains the text. */
  async function lossy(text: string): Promise<string> {
    let isLost = false;
    const proxy = createHttpServer((incoming, outgoing) => {
      const chunks: Buffer[] = [];
      incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
      incoming.on("end", () => {
        const body = Buffer.concat(chunks);
        const to = new URL(incoming.url!, server.url);
        const { method, headers } = incoming;
        const passed = httpRequest(to, { method, headers: { ...headers, host: to.host } }, (answer) => {
          if (!isLost && body.includes(text)) {
            isLost = true;
            answer.resume().on("end", () => outgoing.destroy());
            return;
          }
          outgoing.writeHead(answer.statusCode!, answer.headers);
          answer.pipe(outgoing);
        });
        passed.end(body);
      });
    });
    await new Promise<void>((listening) => proxy.listen(0, "127.0.0.1", listening));
    onTestFinished(() => {
      proxy.closeAllConnections();
      proxy.close();
    });
    return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  }

  it("does not approve what its first request has asked", async () => {
    const retrying = chatWith({ url: await lossy("ok"), key: server.key }, 2);

    expect((await retrying("t", "ok")).text).toContain("Pay 900 EUR?");

    expect(agent.paid).toEqual([]);
    expect(await turns("t")).toEqual(["ok: awaiting"]);
    expect((await say("t", "yes")).text).toContain("And a tip?");
  });

  it("does not approve a second question with the answer to the first", async () => {
    const retrying = chatWith({ url: await lossy("yes"), key: server.key }, 2);
    await retrying("t", "ok");

    expect((await retrying("t", "yes")).text).toContain("And a tip?");

    expect(agent.paid).toEqual(["900"]);
  });

  it("gets the first response where it has given a key", async () => {
    const retrying = chatWith({ url: await lossy("ok"), key: server.key }, 2);

    expect((await retrying("t", "ok", "k-1")).text).toContain("Pay 900 EUR?");
    expect(agent.paid).toEqual([]);
  });
});

describe("other ways to say something twice", () => {
  it("a message with an id is accepted again after its thread has ended, and another one under it is not", async () => {
    const send = (content: string) => server.request("/jobs/t/messages", { json: { content, id: "m-1" } });
    await say("t", "one");
    await send("two");
    await expect.poll(() => turns("t")).toEqual(["one: completed", "two: completed"]);
    await stop("t");

    expect((await send("two")).status).toBe(202);
    expect((await send("three")).status).toBe(409);
    const { status } = await server.request("/jobs/t/messages", { json: { content: "new", id: "m-2" } });
    expect(status).toBe(409);
    expect(await turns("t")).toEqual(["one: completed", "two: completed"]);
  });

  it("an answer to a case with a key answers no later question of it", async () => {
    await say("t", "ok");
    const [item] = (await (await server.request("/jobs/t/cases")).json()) as Case[];
    const answer = (approved: boolean, key: string) =>
      server.request(`/jobs/t/cases/${item!.id}/update`, {
        ...{ json: { answer: { approved } }, headers: { "idempotency-key": key } },
      });
    const first = await answer(true, "a-1");
    await expect
      .poll(async () => (await server.service.get(CASES).get(item!.id)).question?.question)
      .toBe("And a tip?");

    const again = await answer(true, "a-1");
    const other = await answer(false, "a-1");

    expect([first.status, again.status, other.status]).toEqual([200, 200, 409]);
    expect((await server.service.get(CASES).get(item!.id)).question?.question).toBe("And a tip?");
    expect(agent.paid).toEqual(["900"]);
  });
});

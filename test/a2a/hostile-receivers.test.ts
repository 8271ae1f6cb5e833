import { createServer } from "node:http";
import { STORE } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { a2a } from "../../src/a2a.ts";
import { refunds } from "../mcp/_agent.ts";
import { connect, messageOf, send } from "./_client.ts";
import { configOf, HOSTILE, hostileUrls, receiver, statesOf, work } from "./_hostile.ts";
import { listen } from "./_listen.ts";

it("twenty dead and hostile receivers are not felt by one that works, in its own tasks and in theirs", async () => {
  await using server = await testServer({ agents: [refunds], plugins: [a2a({ allowPrivate: true })] });
  const { got, url } = await receiver();
  const urls = await hostileUrls();

  const shared = await work(server, [...urls.slice(0, 9), url]);
  for (const each of urls) await work(server, [each, `${each}/other`, `${each}/third`]);
  const own: string[] = [];
  for (let nth = 0; nth < 3; nth++) {
    own.push(await work(server, [url]));
    await expect
      .poll(() => got.filter((line) => line.startsWith(own.at(-1)!)))
      .toEqual(statesOf(own.at(-1)!));
  }

  await expect.poll(() => got.filter((line) => line.startsWith(shared))).toEqual(statesOf(shared));
  const status = await server.request("/admin/api/events/status");
  expect(await status.json()).toMatchObject({
    targets: [{ name: "a2a", state: "failing", last_error: expect.stringMatching(/^\d+ receivers: /) }],
  });
});

it("a receiver that asks for a long pause is tried again within minutes", async () => {
  await using server = await testServer({ agents: [refunds], plugins: [a2a({ allowPrivate: true })] });
  await work(server, [await listen(createServer(HOSTILE["asks for an hour"]))]);
  const pause = async () => {
    const status = await (await server.request("/admin/api/events/status")).json();
    const [{ retry_at }] = (status as { targets: [{ retry_at: string | null }] }).targets;
    return Date.parse(retry_at ?? "") - Date.now();
  };

  await expect.poll(pause).toBeGreaterThan(60_000);
  expect(await pause()).toBeLessThanOrEqual(5 * 60_000);
});

it("a header that cannot be sent is refused, also with a message, which starts nothing", async () => {
  await using server = await testServer({ agents: [refunds], plugins: [a2a({ allowPrivate: true })] });
  const { url } = await receiver();
  const client = await connect(server);
  const { id } = await send(client, messageOf("m1", [{ text: "A1" }]));
  const good = configOf(id, url);
  const bad = [
    { ...good, token: "a\nb" },
    { ...good, token: "秘密" },
    { ...good, token: "x".repeat(100_000) },
    { ...good, authentication: { scheme: "Bearer\r\nx: y", credentials: "" } },
    { ...good, authentication: { scheme: "Bearer", credentials: "a\0b" } },
  ];

  for (const config of bad) {
    await expect(client.createTaskPushNotificationConfig(config)).rejects.toThrow(/push notification has/);
    const message = { messageId: "m2", role: "ROLE_USER", parts: [{ text: "A1" }] };
    const sent = await server.request("/a2a/refunds/message:send", {
      json: { message, configuration: { taskPushNotificationConfig: { ...config, taskId: "" } } },
    });
    expect(sent.status).toBe(400);
  }
  const list = await client.listTaskPushNotificationConfig({
    tenant: "",
    taskId: id,
    pageSize: 0,
    pageToken: "",
  });
  const tasks = await (
    await server.request("/a2a/refunds/tasks", { headers: { "a2a-version": "1.0" } })
  ).json();

  expect(list.configs).toEqual([]);
  expect((tasks as { tasks: unknown[] }).tasks).toHaveLength(1);
});

it("what an earlier version has stored reaches those that can get it, in order", async () => {
  await using server = await testServer({ agents: [refunds], plugins: [a2a({ allowPrivate: true })] });
  const { got, url } = await receiver();
  const gate = { isOpen: false };
  const slow = await listen(
    createServer((_, response) => void response.writeHead(gate.isOpen ? 204 : 503).end()),
  );
  const id = await work(server, [slow, url]);
  await expect.poll(() => got).toEqual(statesOf(id));
  got.length = 0;
  const store = server.service.get(STORE);
  const { items: configs } = await store.table("A2aPush").list({ where: { job_id: id }, sort: "id" });
  const broken = configs.find(({ config }) => config.url === slow)!;
  await store.table("A2aPush").change(broken.id, (row) => ({
    ...row,
    config: { ...row.config, token: "a\nb", url },
  }));
  const { items: waiting } = await store.table("Outbox").list({ limit: 1 });
  const events = statesOf(id).map((state) => state.split(" ")[1]);
  await store.transaction(async (tx) => {
    for (const { id: old } of (await store.table("Outbox").list({ limit: 100 })).items)
      await tx.remove("Outbox", old);
    for (const [at, state] of events.entries()) {
      for (const { id: config } of configs) {
        const event = {
          statusUpdate: { taskId: id, contextId: "c", status: { state: `TASK_STATE_${state}` } },
        };
        const eventId = `${waiting[0]!.event_id}${at}${config}`;
        const body = { config, event };
        const row = {
          ...waiting[0]!,
          id: `${eventId}.a2a`,
          event_id: eventId,
          target: "a2a",
          seq: at,
          attempts: 0,
        };
        await tx.insert("Outbox", { ...row, state: "waiting", body });
      }
    }
  });

  await server.crash();

  await expect.poll(() => got).toEqual(statesOf(id));
  const dead = async () =>
    ((await (await server.request("/admin/api/events?state=dead")).json()) as { items: { error: string }[] })
      .items;
  await expect.poll(async () => (await dead()).length).toBe(4);
  expect((await dead())[0]!.error).toMatch(/cannot be sent/);
});

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { testServer } from "agent-control-service/testing";
import { expect, it, onTestFinished } from "vitest";
import { a2a } from "../../src/a2a.ts";
import { ACCESS } from "../../src/core/service/tokens.ts";
import { refunds } from "../mcp/_agent.ts";
import { connect, messageOf, send } from "./_client.ts";

/** Takes what is pushed; refuses the first `refusals`. */
async function receiver(refusals = 0) {
  const got: { state: string; token: unknown; authorization: unknown }[] = [];
  let left = refusals;
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (part: Buffer) => {
      text += part;
    });
    request.on("end", () => {
      if (left-- > 0) {
        response.writeHead(503).end();
        return;
      }
      const { "x-a2a-notification-token": token, authorization } = request.headers;
      const { statusUpdate } = JSON.parse(text);
      if (statusUpdate) got.push({ state: statusUpdate.status.state, token, authorization });
      response.writeHead(204).end();
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return { got, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook` };
}

const configOf = (taskId: string, url: string) => ({
  ...{ tenant: "", id: "", taskId, url, token: "t1" },
  authentication: { scheme: "Bearer", credentials: "c1" },
});

it.each(["JSONRPC", "HTTP+JSON"] as const)(
  "changes of a task are pushed in order, also after a crash: %s",
  async (binding) => {
    await using server = await testServer({ agents: [refunds], plugins: [a2a({ allowPrivate: true })] });
    const { got, url } = await receiver();
    const states = () => got.map(({ state }) => state);
    const client = await connect(server, binding);
    const { id } = await send(client, messageOf("m1", [{ text: "A1" }]));

    const config = await client.createTaskPushNotificationConfig(configOf(id, url));
    const { configs } = await client.listTaskPushNotificationConfig({
      tenant: "",
      taskId: id,
      pageSize: 0,
      pageToken: "",
    });
    await send(client, messageOf("m2", [{ text: "yes" }], id));
    await expect.poll(states).toEqual(["TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED"]);
    await server.crash();
    await send(await connect(server, binding), messageOf("m3", [{ text: "5" }], id));

    await expect.poll(() => states().at(-1)).toBe("TASK_STATE_COMPLETED");
    expect(got[0]).toMatchObject({ token: "t1", authorization: "Bearer c1" });
    const shown = { id: config.id, url, token: "", authentication: { scheme: "Bearer", credentials: "" } };
    expect(configs).toMatchObject([shown]);
    expect(config).toMatchObject(shown);
  },
);

it("a receiver that is no longer wanted gets nothing, and private addresses are refused", async () => {
  await using server = await testServer({ agents: [refunds], plugins: [a2a()] });
  const { got, url } = await receiver();
  const client = await connect(server);
  const { id } = await send(client, messageOf("m1", [{ text: "A1" }]));
  const config = await client.createTaskPushNotificationConfig(configOf(id, url));
  await send(client, messageOf("m2", [{ text: "yes" }], id));
  const list = async () =>
    (await (await server.request("/admin/api/events")).json()) as { items: { error: string }[] };
  await expect
    .poll(async () => (await list()).items.map(({ error }) => error))
    .toContainEqual(expect.stringContaining("is not a public address"));

  await client.deleteTaskPushNotificationConfig({ tenant: "", taskId: id, id: config.id });

  await expect(
    client.getTaskPushNotificationConfig({ tenant: "", taskId: id, id: config.id }),
  ).rejects.toThrow();
  await expect(client.createTaskPushNotificationConfig(configOf(id, "file:///etc/passwd"))).rejects.toThrow(
    /http/,
  );
  expect(got).toEqual([]);
});

it("the receiver that a key has set gets nothing more once the key is removed, and that of another key does", async () => {
  await using server = await testServer({ agents: [refunds], plugins: [a2a({ allowPrivate: true })] });
  await server.service.ready();
  const keys = server.service.get(ACCESS);
  const [left, kept] = [await receiver(), await receiver()];
  const { key, access } = await keys.add({ name: "left", role: "operator" }, { kind: "key" });
  const other = await keys.add({ name: "kept", role: "operator" }, { kind: "key" });
  const [one, two] = await Promise.all([connect({ ...server, key }), connect({ ...server, key: other.key })]);
  const { id } = await send(one, messageOf("m1", [{ text: "A1" }]));
  await one.createTaskPushNotificationConfig(configOf(id, left.url));
  await two.createTaskPushNotificationConfig(configOf(id, kept.url));
  const states = ({ got }: typeof left) => got.map(({ state }) => state.replace("TASK_STATE_", ""));
  await send(one, messageOf("m2", [{ text: "yes" }], id));
  for (const one of [left, kept]) await expect.poll(() => states(one)).toEqual(["WORKING", "INPUT_REQUIRED"]);

  await keys.remove(access.id, { kind: "key" });
  await send(two, messageOf("m3", [{ text: "5" }], id));

  await expect.poll(() => states(kept).at(-1)).toBe("COMPLETED");
  // What it is not sent is no longer in the outbox.
  const outbox = async () =>
    ((await (await server.request("/admin/api/events")).json()) as { total: number }).total;
  await expect.poll(outbox).toBe(0);
  expect(states(left)).toEqual(["WORKING", "INPUT_REQUIRED"]);
});

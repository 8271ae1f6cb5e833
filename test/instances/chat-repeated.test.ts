// @area core
import { CASES } from "agent-control-service/plugin";
import { expect, it } from "vitest";
import { chatWith, createAsker } from "../http/_asker.ts";
import { SharedStore, startInstances } from "./_instances.ts";

async function startTwo() {
  const agent = createAsker();
  const options = { agents: [agent.asker] };
  const servers = await startInstances([options, options], new SharedStore({ latency: 20 }));
  const clients = servers.map((server) => chatWith(server));
  const turns = async () =>
    (await servers[0].service.get(CASES).list({ where: { job_id: "t" }, sort: "created_at" })).items.map(
      ({ name, status }) => `${name}: ${status}`,
    );
  return { ...agent, say: (at: number) => clients[at % 2]!, turns };
}

it("a chat request that is sent again to another instance gets the first response", async () => {
  const { say, turns, paid, calls } = await startTwo();
  const sent = [
    ["one", "k-1"],
    ["two", "k-2"],
    ["ok", "k-3"],
    ["yes", "k-4"],
  ] as const;

  const first = [];
  for (const [content, key] of sent) first.push(await say(0)("t", content, key));
  const again = [];
  for (const [content, key] of sent) again.push(await say(1)("t", content, key));

  expect(again).toEqual(first);
  expect(calls).toEqual(["one", "two"]);
  expect(paid).toEqual(["900"]);
  expect(await turns()).toEqual(["one: completed", "two: completed", "ok: awaiting"]);
});

it("a chat request that reaches two instances at the same time has one effect", async () => {
  const { say, turns, paid, calls } = await startTwo();

  const texts: (string | null)[][] = [];
  for (const content of ["one", "two", "ok", "yes"]) {
    const all = Array.from({ length: 4 }, (_, at) => say(at)("t", content, `k-${content}`));
    texts.push((await Promise.all(all)).map(({ text }) => text));
  }

  for (const same of texts) expect(new Set(same).size).toBe(1);
  expect(calls).toEqual(["one", "two"]);
  expect(paid).toEqual(["900"]);
  expect(await turns()).toEqual(["one: completed", "two: completed", "ok: awaiting"]);
});

import { CASES, JOBS } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { createAsker } from "../http/_asker.ts";
import { postForm, signIn } from "./_sign-in.ts";

it("a form of a chat that is sent twice starts one thread, and adds one message", async () => {
  const { asker, calls } = createAsker();
  await using server = await testServer({ agents: [asker] });
  const cookie = await signIn(server);
  const post = (path: string, fields: Record<string, string>) => postForm(server, path, fields, { cookie });
  const sheetOf = async (path: string) => {
    const page = await fetch(server.url + path, { headers: { cookie } });
    return /name="sheet" value="([^"]+)"/.exec(await page.text())![1]!;
  };
  const turns = async () => (await server.service.get(CASES).list()).total;

  const start = { content: "one", sheet: await sheetOf("/admin/agents/asker/chat") };
  const started = [
    await post("/admin/agents/asker/chat", start),
    await post("/admin/agents/asker/chat", start),
  ];
  const { items } = await server.service.get(JOBS).list();
  const path = `/admin/jobs/${items[0]!.id}/chat`;
  await expect.poll(turns).toBe(1);
  const sheet = await sheetOf(path);
  await post(path, { content: "two", sheet });
  await post(path, { content: "two", sheet });
  await post(path, { content: "three", sheet });
  await expect.poll(() => calls).toEqual(["one", "two", "three"]);

  expect(items).toHaveLength(1);
  expect(started.map(({ headers }) => headers.get("location"))).toEqual([path, path]);
  expect(await turns()).toBe(3);
  expect(await sheetOf(path)).not.toBe(sheet);
});

import { CASES, JOBS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { createAsker } from "../http/_asker.ts";
import { postForm, signIn } from "./_sign-in.ts";

it("a form of a chat that is sent twice starts one thread, and adds one message", async () => {
  const { asker, calls } = createAsker();
  await using server = await testServer({ agents: [asker] });
  const { post, read } = await visit(server);
  const sheetOf = async (path: string) => (await read(path)).sheet;
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

it("a message answers the question that its page has shown, in words, and no other one", async () => {
  const { asker, paid } = createAsker();
  await using server = await testServer({ agents: [asker] });
  const { post, read } = await visit(server);
  await post("/admin/agents/asker/chat", { content: "ok", sheet: "s" });
  const [job] = (await server.service.get(JOBS).list()).items;
  const path = `/admin/jobs/${job!.id}/chat`;
  await expect.poll(async () => (await read(path)).seen).not.toBe("");
  const question = async () => (await server.service.get(CASES).list()).items[0]!.question?.question;

  const unseen = await post(path, { content: "yes", sheet: "s-1", seen: "" });
  expect([await flashOf(unseen), await question()]).toEqual(
    [/asks something first/, "Pay 900 EUR?"].map(like),
  );
  const unclear = await post(path, { content: "perhaps", ...(await read(path)) });
  expect(await flashOf(unclear)).toMatch(/not understood as an answer/);
  const page = await read(path);
  await post(path, { content: "sure, go ahead", ...page });
  await expect.poll(question).toBe("And a tip?");
  // Its page has not shown the second question.
  await post(path, { content: "sure, go ahead", ...page });
  const late = await post(path, { content: "yes", ...page, sheet: "s-2" });

  expect(await flashOf(late)).toMatch(/asks something first/);
  expect(await question()).toBe("And a tip?");
  expect(paid).toEqual(["900"]);
  expect((await server.service.get(CASES).list()).total).toBe(1);
});

const like = (given: unknown): unknown => (given instanceof RegExp ? expect.stringMatching(given) : given);

async function flashOf(response: Response): Promise<string> {
  const [, value = ""] = /svc-flash=([^;]+)/.exec(response.headers.get("set-cookie") ?? "") ?? [];
  return Buffer.from(value, "base64url").toString();
}

/** Sends the forms of pages, and reads what their fields have. */
async function visit(server: TestServer) {
  const cookie = await signIn(server);
  return {
    post: (path: string, fields: Record<string, string>) => postForm(server, path, fields, { cookie }),
    read: async (path: string) => {
      const page = await (await fetch(server.url + path, { headers: { cookie } })).text();
      const fieldOf = (name: string) => new RegExp(`name="${name}" value="([^"]*)"`).exec(page)![1]!;
      return { sheet: fieldOf("sheet"), seen: fieldOf("seen") };
    },
  };
}

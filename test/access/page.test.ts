import { defineAgent } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import { afterAll, beforeAll, expect, it } from "vitest";
import { greeter } from "../_setup.ts";
import { start } from "./_signed-in.ts";

const other = defineAgent({ name: "Other", version: "1.0.0", methods: { job_start: { run: () => "done" } } });

let server: TestServer;
beforeAll(async () => {
  server = await testServer({ agents: [greeter, other] });
});
afterAll(() => server[Symbol.asyncDispose]());

const get = (path: string, key = server.key) =>
  server.request(path, { key, headers: { accept: "text/html" }, redirect: "manual" });
const post = (path: string, fields: Record<string, string> = {}, key = server.key) =>
  server.request(path, {
    ...{ method: "POST", key, redirect: "manual" },
    headers: { "content-type": "application/x-www-form-urlencoded", accept: "text/html" },
    body: new URLSearchParams(fields).toString(),
  });
const keyIn = (page: string) => /svck_[0-9a-f]+_[\w-]{43}/.exec(page)?.[0] ?? "";
const exitOf = (page: string, name: string) => new RegExp(`/admin/access/[^/"]+/${name}`).exec(page)![0];
const who = async (key: string) => {
  const response = await server.request("/whoami", { key });
  return response.status === 200 ? ((await response.json()) as Record<string, unknown>) : response.status;
};

it("makes a key by its form, shows it once, rotates and removes it, without a script", async () => {
  const limits = { role: "operator", agent: "other", workspace: "acme", expires: "90d" };
  const made = await post("/admin/access", { name: "billing", ...limits });
  const page = await made.text();
  const key = keyIn(page);

  expect([made.status, made.headers.get("cache-control")]).toEqual([200, "no-store"]);
  expect(await who(key)).toMatchObject({
    name: "key billing",
    role: "operator",
    agents: ["other"],
    workspace: "acme",
  });
  const list = await (await get("/admin/access")).text();
  expect(list).toContain("billing");
  expect(keyIn(list)).toBe("");

  const rotated = keyIn(await (await post(exitOf(list, "rotate"))).text());
  expect(rotated).not.toBe(key);
  expect(await who(rotated)).toMatchObject({ name: "key billing" });
  expect(await who(key)).toMatchObject({ name: "key billing" });
  expect((await (await get("/admin/access")).text()).replace(/<[^>]+>/g, "")).toContain(
    "the former key expires in 1 d.",
  );

  const remove = exitOf(list, "remove");
  expect(await (await get(remove)).text()).toContain("Remove the key &quot;billing&quot;?");
  expect(await who(rotated)).toMatchObject({ name: "key billing" });
  const removed = await post(remove);
  expect([removed.status, removed.headers.get("location")]).toEqual([303, "/admin/access"]);
  expect([await who(rotated), await who(key)]).toEqual([401, 401]);
});

it("keeps what was typed where a key is refused, and makes none", async () => {
  await post("/admin/access", { name: "taken", role: "viewer", expires: "" });

  const wrong = [
    await post("/admin/access", { name: "taken", role: "viewer" }),
    await post("/admin/access", { name: "", role: "viewer" }),
    await post("/admin/access", { name: "x", role: "king" }),
    await post("/admin/access", { name: "x", role: "viewer", expires: "soon" }),
    await post("/admin/access", { name: "x", role: "viewer", expires: "0d" }),
    await post("/admin/access", { name: "x", role: "viewer", agent: "nobody", workspace: "kept & shown" }),
  ];

  expect(wrong.map(({ status }) => status)).toEqual([409, 422, 422, 422, 422, 422]);
  const pages = await Promise.all(wrong.map((response) => response.text()));
  expect(pages.map(keyIn)).toEqual(["", "", "", "", "", ""]);
  expect(pages[5]).toContain('value="kept &amp; shown"');
  expect(await (await server.request("/access", { key: server.key })).json()).toHaveLength(1);
});

it("is for callers who manage everything, and a key of the admin interface is limited like any other", async () => {
  const make = async (name: string, limits: Record<string, string>) =>
    keyIn(await (await post("/admin/access", { name, ...limits })).text());
  const operator = await make("an operator", { role: "operator" });
  const limited = await make("a limited admin", { role: "admin", agent: "other" });

  for (const key of [operator, limited]) {
    expect((await get("/admin/access", key)).status).toBe(403);
    expect((await post("/admin/access", { name: "more", role: "admin" }, key)).status).toBe(403);
    expect((await post("/admin/access/anything/rotate", {}, key)).status).toBe(403);
    expect((await post("/admin/access/anything/remove", {}, key)).status).toBe(403);
  }
});

it("is in the navigation once there is a named key; one developer sees no difference", async () => {
  await using alone = await testServer({ agents: [greeter] });
  const nav = async () =>
    (
      await (await alone.request("/admin/", { key: alone.key, headers: { accept: "text/html" } })).text()
    ).includes('href="/admin/access"');

  const before = await nav();
  await alone.request("/access", { key: alone.key, json: { name: "first", role: "viewer" } });

  expect([before, await nav()]).toEqual([false, true]);
});

it("lists the people who have come, refuses one, and lets one in again", async () => {
  await using at = await start();
  const response = await at.as("ada");
  const cookie = response.headers.getSetCookie()[0]!.split(";")[0]!;
  const enter = async () =>
    (await at.server.request("/admin/jobs", { key: null, headers: { cookie, accept: "text/html" } })).status;
  const admin = { key: at.server.key, headers: { accept: "text/html" }, redirect: "manual" } as const;
  expect(await enter()).toBe(200);
  const read = async () => (await at.server.request("/admin/access", admin)).text();
  await expect.poll(read).toContain("ada@example.com");
  const FORM = {
    method: "POST",
    headers: { ...admin.headers, "content-type": "application/x-www-form-urlencoded" },
  };
  const steer = (page: string) => /\/admin\/access\/people\/[^/"]+\/\w+/.exec(page)![0];

  await at.server.request(steer(await read()), { ...admin, ...FORM });
  const refused = await enter();
  await at.server.request(steer(await read()), { ...admin, ...FORM });

  expect(refused).toBe(403);
  expect(await enter()).toBe(200);
});

it("says of a key's last use no minutes, as only its hour is stored", async () => {
  let now = Date.parse("2030-05-01T10:55:00.000Z");
  await using clocked = await testServer({ agents: [greeter], clock: () => new Date(now) });
  const made = await clocked.request("/access", { json: { name: "billing", role: "viewer" } });
  const { key } = (await made.json()) as { key: string };
  await clocked.request("/whoami", { key });
  const usedOf = async () => {
    const page = await clocked.request("/admin/access", { headers: { accept: "text/html" } });
    return /<time datetime="([^"]+)"[^>]*data-relative="([^"]*)">([^<]*)<\/time>/
      .exec(await page.text())
      ?.slice(1);
  };
  const hour = "2030-05-01T10:00:00.000Z";

  await expect.poll(usedOf).toEqual([hour, "in the last hour", "in the last hour"]);
  now += 10 * 60_000;
  expect(await usedOf()).toEqual([hour, "in the last 2 h", "in the last 2 h"]);
});

import { hash } from "node:crypto";
import { defineAgent } from "agent-control-service";
import { AUDIT } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { describe, expect, it } from "vitest";
import { a2a } from "../../src/a2a.ts";
import { agUi } from "../../src/agui.ts";
import type { Access } from "../../src/core/models/access.ts";
import { STORE } from "../../src/core/service/tokens.ts";
import { mcp } from "../../src/mcp.ts";
import { greeter } from "../_setup.ts";
import { postForm } from "../admin/_sign-in.ts";
import { startInstances } from "../instances/_instances.ts";

interface Made {
  readonly key: string;
  readonly access: Access;
}

async function add(server: TestServer, json: Record<string, unknown> = {}): Promise<Made> {
  const response = await server.request("/access", { json: { name: "billing", role: "operator", ...json } });
  if (response.status !== 201) throw new Error(await response.text());
  return (await response.json()) as Made;
}

/** Asks two people. */
const payer = defineAgent({
  name: "Payer",
  version: "1.0.0",
  methods: {
    job_start: {
      async run({ job }) {
        const item = await job.openCase({ id: "refund", name: "Refund" });
        const fields = [{ name: "approved", field_type: "BooleanField", required: true }] as const;
        return item.ask({ question: "Pay 900 EUR?", approvers: 2, fields });
      },
    },
  },
});

const statusOf = async (server: TestServer, key: string, path = "/jobs") =>
  (await server.request(path, { key })).status;
const start = (options = {}) => testServer({ agents: [greeter], ...options });

describe("a named key", () => {
  it("is shown once, and only its hash is stored", async () => {
    await using server = await start();

    const { key, access } = await add(server, { agents: ["greeter"], workspace: "acme", expires_in: "90d" });

    expect(key).toMatch(/^svck_[0-9a-f]{12}_[\w-]{43}$/);
    expect(access).toMatchObject({
      ...{ name: "billing", role: "operator", agents: ["greeter"], workspace: "acme", used_at: null },
      ...{ source: "stored", created_by: "api-key" },
    });
    const row = await server.service.get(STORE).table("Access").get(access.id);
    expect(row?.hash).toBe(hash("sha256", key, "hex"));
    const shown = await (await server.request("/access")).text();
    for (const secret of [key.slice(-43), row!.hash]) expect(shown).not.toContain(secret);
  });

  it("works as X-API-Key and as bearer; a wrong one is answered with what is asked for", async () => {
    await using server = await start();
    const { key } = await add(server);

    const bearer = await server.request("/jobs", { key: null, headers: { authorization: `Bearer ${key}` } });
    const root = await server.request("/jobs", {
      key: null,
      headers: { authorization: `bearer ${server.key}` },
    });
    const none = await server.request("/jobs", { key: null });
    const wrong = await server.request("/jobs", { key: null, headers: { authorization: `Bearer ${key}x` } });
    // As curl asks for it: a program is not shown the page for signing in.
    const asked = await server.request("/whoami", { key: `${key}x`, headers: { accept: "*/*" } });

    expect([await statusOf(server, key), bearer.status, root.status]).toEqual([200, 200, 200]);
    expect([asked.status, await asked.json()]).toMatchObject([401, { error: "Invalid API key" }]);
    expect([none.status, none.headers.get("www-authenticate")]).toEqual([
      401,
      'Bearer realm="agent-control-service"',
    ]);
    expect([wrong.status, wrong.headers.get("www-authenticate")]).toEqual([
      401,
      'Bearer realm="agent-control-service", error="invalid_token"',
    ]);
  });

  it.each([
    ["POST", "/mcp"],
    ["POST", "/a2a/greeter"],
    ["GET", "/a2a/greeter/tasks"],
    ["POST", "/ag-ui/greeter"],
    ["GET", "/v1/models"],
    ["POST", "/chat/greeter"],
  ])("works as bearer over every protocol: %s %s", async (method, path) => {
    await using server = await testServer({ agents: [greeter], plugins: [mcp(), a2a(), agUi()] });
    const { key } = await add(server);
    const statusOf = async (given: string) => {
      const headers = { authorization: `Bearer ${given}`, "content-type": "application/json" };
      const body = method === "POST" ? { body: "{}" } : {};
      return (await server.request(path, { key: null, method, headers, ...body })).status;
    };

    expect(await statusOf(`${key}x`)).toBe(401);
    expect([401, 403]).not.toContain(await statusOf(key));
  });

  it("may do what its role says, and learns it from /whoami", async () => {
    await using server = await start();
    const { key } = await add(server, { role: "viewer" });

    const who = await server.request("/whoami", { key });
    const refused = await server.request("/utils/drain", { key, json: { seconds: 1 } });

    expect(await who.json()).toMatchObject({
      name: "key billing",
      role: "viewer",
      rights: ["view"],
      agents: null,
    });
    expect(refused.status).toBe(403);
    expect(await refused.json()).toMatchObject({
      error_type: "forbidden",
      error: 'This needs the right "operate"',
      detail: expect.stringContaining("the roles operator, admin do"),
    });
    expect(await (await server.request("/whoami")).json()).toMatchObject({ name: "api-key", role: "admin" });
  });

  it("is out as soon as it is removed, with its streams", async () => {
    await using server = await start();
    const { key, access } = await add(server);
    const stream = await server.request("/admin/api/live", { key });
    const reader = stream.body!.getReader();

    const removed = await server.request(`/access/${access.id}`, { method: "DELETE" });

    expect([stream.status, removed.status, await statusOf(server, key)]).toEqual([200, 200, 401]);
    while (!(await reader.read()).done);
  });

  it("ends the tokens for browsers that were made with it", async () => {
    await using server = await start();
    const { key, access } = await add(server);
    await server.request("/agents/greeter/jobs", {
      json: { job_context: { job_id: "job-1" }, job_fields: { name: "Ada" } },
    });
    const made = async (by: string) =>
      (
        (await (await server.request("/jobs/job-1/tokens", { key: by, method: "POST" })).json()) as {
          token: string;
        }
      ).token;
    const own = await made(key);
    const other = await made(server.key);
    const read = async (token: string) =>
      (await server.request("/jobs/job-1", { key: null, headers: { authorization: `Bearer ${token}` } }))
        .status;
    expect([await read(own), await read(other)]).toEqual([200, 200]);

    await server.request(`/access/${access.id}`, { method: "DELETE" });

    expect([await read(own), await read(other)]).toEqual([401, 200]);
  });

  it("is no further person where several must agree: all keys are one", async () => {
    await using server = await testServer({ agents: [payer] });
    const first = await add(server, { name: "first" });
    const second = await add(server, { name: "second" });
    await server.request("/agents/payer/jobs", { json: { job_context: { job_id: "job-1" } } });
    await expect
      .poll(async () => (await (await server.request("/jobs/job-1")).json()) as object)
      .toMatchObject({ status: "awaiting" });
    const answer = async (key: string) =>
      (
        await server.request("/jobs/job-1/cases/refund/update", {
          key,
          json: { answer: { approved: true } },
        })
      ).status;

    expect(await answer(first.key)).toBe(200);
    for (const key of [second.key, server.key]) expect(await answer(key)).toBe(409);
    const job = (await (await server.request("/jobs/job-1")).json()) as { status: string };
    expect(job.status).toBe("awaiting");
  });

  it("ends its streams at its time, also where the clock is set forward meanwhile", async () => {
    let ahead = 0;
    await using server = await start({ clock: () => new Date(Date.now() + ahead) });
    const { key } = await add(server, { expires_in: "1h" });
    const stream = await server.request("/admin/api/live", { key });
    let isOver = false;
    const reading = stream.text().then(() => {
      isOver = true;
    });

    ahead = 3_600_000;

    await expect.poll(() => isOver, { timeout: 10_000 }).toBe(true);
    await reading;
    expect(stream.status).toBe(200);
  });

  it("is replaced, and the former one works for a day", async () => {
    let ahead = 0;
    await using server = await start({ clock: () => new Date(Date.now() + ahead) });
    const { key } = await add(server);

    const again = (await (await server.request("/access/billing/rotate", { method: "POST" })).json()) as Made;
    // Its response may have been lost, and the request repeated.
    const third = (await (await server.request("/access/billing/rotate", { method: "POST" })).json()) as Made;
    const all = await Promise.all([key, again.key, third.key].map((one) => statusOf(server, one)));
    ahead = 24 * 3_600_000 + 1000;

    expect(all).toEqual([200, 200, 200]);
    expect(again.access.previous_until).not.toBeNull();
    const late = await server.request("/jobs", { key });
    expect(await late.json()).toMatchObject({ status_code: 401, error: "The key has expired" });
    expect([await statusOf(server, again.key), await statusOf(server, third.key)]).toEqual([401, 200]);
  });

  it("expires, and that is no guess of a wrong key", async () => {
    let ahead = 0;
    await using server = await start({ clock: () => new Date(Date.now() + ahead) });
    const { key } = await add(server, { expires_in: "1h" });
    ahead = 3_600_001;

    const statuses = [];
    for (let attempt = 0; attempt < 12; attempt++) statuses.push(await statusOf(server, key));

    expect(new Set(statuses)).toEqual(new Set([401]));
    expect(await statusOf(server, server.key)).toBe(200);
  });

  it("shows in which hour it was last used", async () => {
    await using server = await start({ clock: () => new Date("2027-03-01T10:25:00Z") });
    const { key, access } = await add(server);

    await statusOf(server, key);

    await expect
      .poll(async () => (await server.service.get(STORE).table("Access").get(access.id))?.used_at)
      .toBe("2027-03-01T10:00:00.000Z");
  });

  it("leaves a line in the audit log with each change, and with what is done with it", async () => {
    await using server = await start();
    const { key, access } = await add(server);
    await server.request("/access/billing/rotate", { method: "POST" });
    await server.request("/utils/drain", { key, json: { seconds: 1 } });
    await server.request("/access/billing", { method: "DELETE" });

    const { items } = await server.service.get(AUDIT).list({ limit: 10 });

    const target = { kind: "access", id: access.id };
    expect(items.reverse()).toMatchObject([
      { action: "access.add", target, after: { name: "billing", role: "operator" }, who: { kind: "key" } },
      { action: "access.rotate", target },
      { action: "service.drain", who: { kind: "key", name: "billing", access: access.id } },
      { action: "access.remove", target, before: { name: "billing" } },
    ]);
    expect(JSON.stringify(items)).not.toContain(key.slice(-43));
  });

  it.each([
    [{ name: "" }, 422],
    [{ role: "root" }, 422],
    [{ agents: [] }, 422],
    [{ agents: ["nobody"] }, 422],
    [{ expires_in: "soon" }, 422],
    [{ name: "taken" }, 409],
  ])("is not made from %j", async (json, status) => {
    await using server = await start();
    await add(server, { name: "taken" });

    const response = await server.request("/access", { json: { name: "billing", role: "viewer", ...json } });

    expect(response.status).toBe(status);
    expect(await (await server.request("/access")).json()).toHaveLength(1);
  });

  it("signs in to the admin pages with its own rights, until it is removed", async () => {
    await using server = await start();
    const { key } = await add(server, { role: "viewer" });

    const signedIn = await postForm(server, "/admin/session", { key, name: "Root" }, {});
    const cookie = signedIn.headers.getSetCookie()[0]!.split(";")[0]!;
    const get = (path: string) => server.request(path, { key: null, headers: { cookie } });

    expect(await (await get("/whoami")).json()).toMatchObject({
      name: "billing",
      kind: "session",
      role: "viewer",
    });
    expect((await get("/admin/api/jobs")).status).toBe(200);
    expect((await get("/admin/api/audit")).status).toBe(403);
    await server.request("/access/billing", { method: "DELETE" });
    expect((await get("/admin/api/jobs")).status).toBe(401);
  });

  it("outlives a restart", async () => {
    await using server = await start();
    const { key } = await add(server);

    await server.crash();

    expect(await statusOf(server, key)).toBe(200);
  });
});

describe("a declared key", () => {
  const key = `svck_declared_${"y".repeat(43)}`;
  const sha256 = hash("sha256", key, "hex");

  it("works without a line in the store, and is removed in the code only", async () => {
    await using server = await start({ access: { keys: [{ name: "ci", role: "operator", sha256 }] } });

    const removed = await server.request("/access/ci", { method: "DELETE" });

    expect(await statusOf(server, key)).toBe(200);
    expect(await (await server.request("/access")).json()).toMatchObject([
      { name: "ci", source: "declared" },
    ]);
    expect(await removed.json()).toMatchObject({
      status_code: 409,
      error: 'The key "ci" is declared in the code',
    });
  });

  it.each([
    [[{ name: "ci", role: "boss", sha256 }], "keys[0]: role"],
    [[{ name: "ci", role: "viewer", sha256: "abc" }], "keys[0]: sha256 must be the SHA-256 of the key"],
    [[{ name: "ci", role: "viewer", sha256, agent: "x" }], "agent"],
    [
      [
        { name: "ci", role: "viewer", sha256 },
        { name: "cd", role: "viewer", sha256 },
      ],
      "two keys have the same sha256",
    ],
    [[{ name: "ci", role: "viewer", sha256, agents: ["nobody"] }], 'names the agent "nobody"'],
  ])("that is wrong stops the start: %j", async (keys, message) => {
    await expect(start({ access: { keys: keys as never } })).rejects.toThrow(message);
  });
});

describe("on several instances", () => {
  it("a key works on each as soon as it is made, and on none once it is removed", async () => {
    const [one, other] = await startInstances([{}, {}]);
    const { key } = await add(one);
    await expect.poll(() => statusOf(other, key)).toBe(200);
    const stream = await other.request("/admin/api/live", { key });
    const reader = stream.body!.getReader();

    await one.request("/access/billing", { method: "DELETE" });

    await expect.poll(() => statusOf(other, key)).toBe(401);
    while (!(await reader.read()).done);
  });
});

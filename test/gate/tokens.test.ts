// @long
// @area service admin protocols
import { type AddedRoute, RUNNER } from "agent-control-service/plugin";
import type { TestServer } from "agent-control-service/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { payer } from "../client/_agents.ts";
import { startInstances } from "../instances/_instances.ts";
import { fill } from "./_examples.ts";
import { openWorld, type World } from "./_world.ts";

const SCOPES = ["status", "record", "answer", "message", "stop"] as const;
let world: World;

beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world[Symbol.asyncDispose]());

async function mint(job: string, body: unknown = { scopes: SCOPES }): Promise<string> {
  const made = await world.server.request(`/jobs/${job}/tokens`, { json: body });
  expect(made.status).toBe(201);
  return ((await made.json()) as { token: string }).token;
}

/** The example of a route, sent with a token of its own job, or of another one. */
async function send(route: AddedRoute, given: { token: string } | { scopes: readonly string[] }) {
  const filled = await fill(world, route, { "x-api-key": world.key });
  const job = /\/jobs\/([^/?]+)/.exec(filled.path)?.[1] ?? "";
  const token = "token" in given ? given.token : await mint(job, { scopes: given.scopes });
  const got = await world.send({
    ...filled,
    headers: {
      accept: "application/json",
      authorization: `Bearer ${token}`,
      ...(filled.type !== undefined && { "content-type": filled.type }),
      ...filled.headers,
    },
  });
  return got.status;
}

/** Routes that a token of their job opens, by the scope that each needs. */
const OPEN: Readonly<Record<string, (typeof SCOPES)[number]>> = {
  "GET /jobs/{id}": "status",
  "GET /jobs/{id}/result": "status",
  "GET /jobs/{id}/cases": "status",
  "GET /jobs/{id}/files": "record",
  "GET /jobs/{id}/files/{sha256}": "status",
  "POST /jobs/{id}/uploads": "answer",
  "GET /jobs/{id}/uploads/{upload}": "answer",
  "PATCH /jobs/{id}/uploads/{upload}": "answer",
  "DELETE /jobs/{id}/uploads/{upload}": "answer",
  "GET /jobs/{id}/stream": "status",
  "POST /jobs/{id}/messages": "message",
  "POST /jobs/{id}/stop": "stop",
  "POST /jobs/{job_id}/cases/{case_id}/update": "answer",
};

describe("a token of a job", () => {
  it("opens exactly the routes of its job that its scope names", async () => {
    const other = await mint(await world.job());
    const wrong: string[] = [];
    for (const route of world.routes) {
      const name = `${route.method} ${route.path}`;
      if (route.auth === "none") continue;
      const scope = OPEN[name];
      if (scope === undefined) {
        const status = await send(route, { token: other });
        if (status !== 401) wrong.push(`${name}: ${status} to a token`);
        continue;
      }
      // The file of the example is none of the result.
      const own = await send(route, { scopes: [name.includes("sha256") ? "record" : scope] });
      if (own >= 300) wrong.push(`${name}: ${own} to its token`);
      const foreign = await send(route, { token: other });
      if (foreign !== 403) wrong.push(`${name}: ${foreign} to the token of another job`);
      // The record has the state in it.
      const without = scope === "status" ? ["status", "record"] : [scope];
      const less = await send(route, { scopes: SCOPES.filter((one) => !without.includes(one)) });
      if (less !== 403) wrong.push(`${name}: ${less} to a token without its scope`);
    }

    expect(wrong).toEqual([]);
    expect(
      world.routes
        .filter(({ token }) => token)
        .map(({ method, path }) => `${method} ${path}`)
        .sort(),
    ).toEqual(Object.keys(OPEN).sort());
  });

  it("is refused when anything in it is changed, or it is not one", async () => {
    const id = await world.job();
    const token = await mint(id);
    const [head, payload = "", signature = ""] = token.split(".");
    const more = Buffer.from(payload, "base64url")
      .toString()
      .replace(/"exp":\d+/, '"exp":9999999999');
    const forged = Buffer.from(more).toString("base64url");
    const changed = [
      `${head}.${forged}.${signature}`,
      `${head}.${payload}.`,
      `${head}.${payload}`,
      `${payload}.${signature}`,
      `${head}.${payload}.${signature.slice(0, -2)}`,
      `${head}.${payload}.${Buffer.alloc(32).toString("base64url")}`,
      `${world.key}x`,
      ".",
      "svct..",
    ];

    for (const text of changed) {
      const headers = { authorization: `Bearer ${text}` };
      const got = await world.send({ method: "GET", path: `/jobs/${id}`, headers });
      expect([text, got.status]).toEqual([text, 401]);
    }
    const right = { authorization: `bearer ${token}` };
    expect((await world.send({ method: "GET", path: `/jobs/${id}`, headers: right })).status).toBe(200);
  });

  it("is named as who answered, and is in no log", async () => {
    const id = await world.job();
    const token = await mint(id, { scopes: ["status", "answer"], name: "Grace" });
    const route = world.routes.find(({ path }) => path === "/jobs/{job_id}/cases/{case_id}/update")!;
    const { body, type } = await fill(world, route, {});
    const cases = await world.server.request(`/jobs/${id}/cases`);
    const [item] = (await cases.json()) as { id: string }[];

    const headers = { authorization: `Bearer ${token}`, "content-type": type! };
    const path = `/jobs/${id}/cases/${item!.id}/update`;
    expect(await world.send({ method: "POST", path, headers, body: body! })).toMatchObject({ status: 200 });

    const audit = await (await world.server.request(`/admin/api/audit?target=${item!.id}`)).text();
    expect(audit).toContain('"kind":"token","name":"Grace"');
    const made = await (await world.server.request("/admin/api/audit?action=job.token")).text();
    expect(made).toContain('"scopes":["status","answer"]');
    for (const text of [audit, made, world.said()]) expect(text).not.toContain(token.slice(-20));
  });

  it("needs the API key, a job, a scope and an end", async () => {
    const id = await world.job();
    const ask = async (json: unknown, path = `/jobs/${id}/tokens`) =>
      (await world.server.request(path, { json })).status;

    expect(await ask({}, "/jobs/nothing/tokens")).toBe(404);
    for (const body of [
      { scopes: [] },
      { scopes: ["all"] },
      { expires_in: 0 },
      { expires_in: 86_401 },
      { name: "" },
      { scopes: ["read", "answer"] },
    ])
      expect([body, await ask(body)]).toEqual([body, 422]);
  });
});

async function start(server: TestServer, slug: string, job_fields: object): Promise<void> {
  const json = { job_context: { job_id: "j" }, job_fields };
  expect((await server.request(`/agents/${slug}/jobs`, { json })).status).toBe(202);
}

describe("tokens", () => {
  it("open no later job of the same id", async () => {
    let now = Date.now();
    const [server] = await startInstances([{ agents: [payer], clock: () => new Date(now) }]);
    await start(server, "payer", { amount: 1 });
    const made = await server.request("/jobs/j/tokens", { json: { scopes: SCOPES } });
    const { token } = (await made.json()) as { token: string };
    const statusOf = async (path: string, method = "GET") =>
      (
        await fetch(`${server.url}/jobs/j${path}`, {
          method,
          headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
          ...(method === "POST" && { body: "{}" }),
        })
      ).status;
    expect(await statusOf("")).toBe(200);

    now += 1000;
    await server.service.get(RUNNER).remove("j", { kind: "key" }, { permanent: true });
    await start(server, "payer", { amount: 1 });

    for (const path of ["", "/cases", "/files", "/stream", "/result", `/files/${"a".repeat(64)}`])
      expect([path, await statusOf(path)]).toEqual([path, 404]);
    for (const path of ["/stop", "/uploads"])
      expect([path, await statusOf(path, "POST")]).toEqual([path, 404]);
  });

  it("expire, and with them the streams that they opened", async () => {
    let now = Date.now();
    const [server] = await startInstances([{ agents: [payer], clock: () => new Date(now) }]);
    await start(server, "payer", { amount: 1 });
    const made = await server.request("/jobs/j/tokens", { json: { expires_in: 1 } });
    const { token } = (await made.json()) as { token: string };
    const headers = { authorization: `Bearer ${token}` };

    const stream = await (await fetch(`${server.url}/jobs/j/stream`, { headers })).text();
    now += 1000;
    const late = await fetch(`${server.url}/jobs/j`, { headers });

    expect(stream).toContain("event: snapshot");
    expect(stream).not.toContain("event: end");
    expect(await late.json()).toMatchObject({ error: "The token has expired", status_code: 401 });
  });

  it("work on every instance, and end with the API key", async () => {
    const keys = { apiKey: "the-first-key-4f6c2a90c1d24e0b" };
    const next = { apiKey: "the-second-key-8e1b7d35a6f04c29" };
    const [one, two, both, after] = await startInstances([
      keys,
      keys,
      { ...next, previousApiKey: keys.apiKey },
      next,
    ]);
    await start(one, "greeter", { name: "Ada" });
    const { token } = (await (await one.request("/jobs/j/tokens", { method: "POST" })).json()) as {
      token: string;
    };

    const statuses = await Promise.all(
      [one, two, both, after].map(async ({ url }) => {
        const got = await fetch(`${url}/jobs/j/result`, { headers: { authorization: `Bearer ${token}` } });
        return got.status;
      }),
    );

    expect(statuses).toEqual([200, 200, 200, 401]);
  });
});

describe("pages of other origins", () => {
  const page = "https://app.example.com";

  it("may use what tokens open if their origin is allowed, and read failures", async () => {
    const [server] = await startInstances([{ allowedOrigins: [page] }]);
    const ask = (path: string, init: { method?: string; headers?: Record<string, string> }) =>
      fetch(server.url + path, { ...init, headers: { origin: page, ...init.headers } });
    const preflight = {
      "access-control-request-method": "GET",
      "access-control-request-headers": "authorization",
    };

    const asked = await ask("/jobs/j/stream", { method: "OPTIONS", headers: preflight });
    const refused = await ask("/jobs/j", { headers: { authorization: "Bearer svct.x.y" } });
    const elsewhere = await ask("/jobs", { method: "OPTIONS", headers: preflight });
    const minted = await ask("/jobs/j/tokens", { method: "OPTIONS", headers: preflight });
    const other = await ask("/jobs/j", { headers: { origin: "https://evil.example" } });

    expect(asked.status).toBe(204);
    expect(asked.headers.get("access-control-allow-origin")).toBe(page);
    expect(asked.headers.get("access-control-allow-headers")).not.toContain("x-api-key");
    expect(asked.headers.get("access-control-allow-headers")).toContain("idempotency-key");
    expect(asked.headers.get("access-control-allow-credentials")).toBeNull();
    expect([refused.status, refused.headers.get("access-control-allow-origin")]).toEqual([401, page]);
    for (const { headers } of [elsewhere, minted, other])
      expect(headers.get("access-control-allow-origin")).toBeNull();
    expect(other.headers.get("vary")).toContain("origin");
    expect([elsewhere.status, minted.status]).toEqual([405, 405]);
  });

  it("may use nothing otherwise", async () => {
    const got = await world.send({ method: "OPTIONS", path: "/jobs/j", headers: { origin: page } });

    expect(got.status).toBe(405);
    expect(Object.keys(got.headers).filter((name) => name.startsWith("access-control"))).toEqual([]);
  });

  it.each(["*", "null", "app.example.com", "https://app.example.com/", "https://a.example/path"])(
    "are not allowed by %s",
    async (origin) => {
      await expect(startInstances([{ allowedOrigins: [origin] }])).rejects.toThrow("allowedOrigins");
    },
  );
});

import { Agent, request } from "node:http";
import { ServiceError } from "agent-control-service";
import {
  CLOCK,
  defineRoute,
  GATE,
  type Plugin,
  ROUTER,
  type RouteDefinition,
  SESSIONS,
} from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { WrongKeys } from "../../src/core/http/wrong-keys.ts";
import { describeServer, greeter } from "../_setup.ts";

const route = (path: string, auth: RouteDefinition["auth"]) =>
  defineRoute({
    method: "GET",
    path,
    auth,
    needs: auth === "none" ? "nothing" : "view",
    summary: path,
    tag: "Test",
    responses: { 200: { description: "Who asks" } },
    handler: ({ actor }) => ({ actor }),
  });

const routes: Plugin = {
  name: "routes",
  setup: ({ get }) => {
    get(ROUTER).add(route("/open", "none"));
    get(ROUTER).add(route("/keyed", "key"));
    get(ROUTER).add(route("/session", "session"));
  },
};

const sessions: Plugin = {
  name: "sessions",
  setup: ({ provide }) =>
    provide(SESSIONS, () => ({
      verify: (event) => {
        const cookie = event.req.headers.get("cookie");
        if (cookie === "foreign") throw new ServiceError("forbidden", "This came from another site");
        return cookie === "signed-in" ? { name: "admin", role: "admin" as const } : undefined;
      },
      challenge: (event) =>
        event.req.headers.get("accept") === "text/html"
          ? new Response("<h1>Sign in</h1>", { status: 401, headers: { "content-type": "text/html" } })
          : undefined,
    })),
};

describeServer("the key", ({ start }) => {
  it("is not required on an open route", async () => {
    await using server = await start({ plugins: [routes] });

    const response = await server.request("/open", { key: null });

    expect(await response.json()).toEqual({ actor: "anyone" });
  });

  it.each([
    [null, "missing"],
    ["", "empty"],
    ["test-key-of-this-serve", "too short"],
    ["test-key-of-this-server2", "too long"],
    ["Test-key-of-this-server", "almost right"],
  ])("is refused with 401: %s (%s)", async (key, _why) => {
    await using server = await start({ plugins: [routes] });

    const response = await server.request("/keyed", { key });

    expect(response.status).toBe(401);
    expect(await response.json()).toMatchObject({ error_type: "unauthorized", status_code: 401 });
  });

  it("is required before anything else is checked", async () => {
    await using server = await start({ plugins: [routes] });

    const response = await server.request("/keyed?limit=x", { key: "wrong" });

    expect(response.status).toBe(401);
  });

  it("that is wrong too often is refused for a while", async () => {
    await using server = await start({ plugins: [routes] });

    const statuses = [];
    for (let attempt = 0; attempt < 12; attempt++) {
      statuses.push((await server.request("/keyed", { key: `wrong-${attempt}` })).status);
    }
    const refused = await server.request("/keyed", { key: "wrong" });

    expect(statuses).toEqual([...Array(10).fill(401), 429, 429]);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await refused.json()).toMatchObject({ error_type: "rate_limited", status_code: 429 });
    expect((await server.request("/open", { key: null })).status).toBe(200);
  });

  it("that is right keeps working where it did before", async () => {
    await using server = await start({ plugins: [routes] });
    expect((await server.request("/keyed")).status).toBe(200);

    for (let attempt = 0; attempt < 12; attempt++) await server.request("/keyed", { key: "wrong" });
    const wrong = await server.request("/keyed", { key: "wrong" });
    const right = await server.request("/keyed");

    expect([wrong.status, right.status]).toEqual([429, 200]);
  });
});

describeServer("a session", ({ start }) => {
  it("or the key opens a session route", async () => {
    await using server = await start({ admin: false, plugins: [routes, sessions] });

    const byKey = await server.request("/session");
    const bySession = await server.request("/session", { key: null, headers: { cookie: "signed-in" } });

    expect(await byKey.json()).toEqual({ actor: "api-key" });
    expect(await bySession.json()).toEqual({ actor: "admin" });
  });

  it("does not open a route that requires the key", async () => {
    await using server = await start({ admin: false, plugins: [routes, sessions] });

    const response = await server.request("/keyed", { key: null, headers: { cookie: "signed-in" } });

    expect(response.status).toBe(401);
  });

  it("is requested with the plugin's page or with the JSON error", async () => {
    await using server = await start({ admin: false, plugins: [routes, sessions] });

    const page = await server.request("/session", { key: null, headers: { accept: "text/html" } });
    const json = await server.request("/session", { key: null });
    const foreign = await server.request("/session", { key: null, headers: { cookie: "foreign" } });

    expect(page.status).toBe(401);
    expect(await page.text()).toBe("<h1>Sign in</h1>");
    expect(await json.json()).toMatchObject({ error_type: "unauthorized" });
    expect(foreign.status).toBe(403);
  });

  it("route requires the key if no plugin has sessions", async () => {
    await using server = await start({ plugins: [routes] });

    const response = await server.request("/session", { key: null, headers: { cookie: "signed-in" } });

    expect(response.status).toBe(401);
  });
});

describe("behind a proxy", () => {
  const start = (trustProxy?: number | string[]) =>
    testServer({ agents: [greeter], plugins: [routes], ...(trustProxy !== undefined && { trustProxy }) });
  const from = async (server: TestServer, forwarded: string, key: string) =>
    (await server.request("/keyed", { key, headers: { "x-forwarded-for": forwarded } })).status;
  const guess = async (server: TestServer, forwarded: (attempt: number) => string) => {
    for (let attempt = 0; attempt < 12; attempt++) await from(server, forwarded(attempt), "wrong");
  };

  it.each([
    [1, "203.0.113.9, 198.51.100.1"],
    [2, "203.0.113.9, 198.51.100.1, 10.0.0.1"],
    [["private"], "203.0.113.9, 198.51.100.1, 10.0.0.1"],
    [["127.0.0.1", "10.0.0.0/8"], "203.0.113.9, 198.51.100.1:4711, 10.0.0.1"],
  ])("with trustProxy %j the address in %s is the one behind the proxies", async (trustProxy, forwarded) => {
    await using server = await start(trustProxy);

    await guess(server, (attempt) => forwarded.replace("203.0.113.9", `203.0.113.${attempt}`));

    expect(await from(server, forwarded, server.key)).toBe(429);
    expect(await from(server, forwarded.replace("198.51.100.1", "198.51.100.2"), server.key)).toBe(200);
  });

  it("no header is trusted unless proxies are configured: other addresses in it change nothing", async () => {
    await using server = await start();

    await guess(server, (attempt) => `198.51.100.${attempt}`);

    expect(await from(server, "198.51.100.77", "wrong")).toBe(429);
    expect(server.logs.filter((line) => line.includes("SERVICE_TRUST_PROXY"))).toHaveLength(1);
  });

  it("a client that is not the proxy is not trusted", async () => {
    await using server = await start(["10.0.0.0/8"]);

    await guess(server, (attempt) => `198.51.100.${attempt}`);

    expect(await from(server, "198.51.100.77", "wrong")).toBe(429);
  });

  it("the right key of one client gives no access to another one on the proxy's connection", async () => {
    await using server = await start(1);
    expect(await from(server, "198.51.100.2", server.key)).toBe(200);

    await guess(server, () => "198.51.100.1");

    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const onOne = (forwarded: string) => ask(server, agent, forwarded);
    expect([await onOne("198.51.100.2"), await onOne("198.51.100.1"), await onOne("198.51.100.2")]).toEqual([
      200, 429, 200,
    ]);
    agent.destroy();
  });
});

/** Sends the right key on the agent's one connection. */
function ask(server: TestServer, agent: Agent, forwarded: string): Promise<number | undefined> {
  const headers = { "x-api-key": server.key, "x-forwarded-for": forwarded };
  return new Promise((resolve, reject) => {
    const sent = request(`${server.url}/keyed`, { agent, headers }, (response) => {
      response.resume().on("end", () => resolve(response.statusCode));
    });
    sent.on("error", reject).end();
  });
}

describe("two keys", () => {
  it("are valid at the same time, so that clients can change to the new one", async () => {
    await using server = await testServer({
      agents: [greeter],
      plugins: [routes],
      previousApiKey: "the-key-of-the-last-quarter",
    });

    const statuses = [];
    for (const key of [server.key, "the-key-of-the-last-quarter", "the-key-of-the-first-quarter"])
      statuses.push((await server.request("/keyed", { key })).status);

    expect(statuses).toEqual([200, 200, 401]);
  });
});

describe("wrong keys", () => {
  it("are forgotten after a minute", () => {
    let now = 0;
    const wrongKeys = new WrongKeys(() => new Date(now));

    for (let attempt = 0; attempt < 11; attempt++) wrongKeys.wrong("a");
    expect(wrongKeys.wait("a")).toBe(60);
    expect(wrongKeys.wait("b")).toBe(0);

    now = 60_000;
    expect(wrongKeys.wait("a")).toBe(0);
    expect(wrongKeys.wrong("a")).toBe(0);
  });

  it("from many new addresses do not fill the memory", () => {
    const wrongKeys = new WrongKeys(() => new Date(0));

    for (let attempt = 0; attempt < 11; attempt++) wrongKeys.wrong("first");
    for (let address = 0; address < 10_000; address++) wrongKeys.wrong(String(address));

    expect(wrongKeys.wrong("first")).toBe(0);
  });

  it("from many new addresses are refused if there are too many; known addresses get in", () => {
    let now = 0;
    const wrongKeys = new WrongKeys(() => new Date(now));
    wrongKeys.right("known");

    for (let address = 0; address < 1000; address++) wrongKeys.wrong(String(address));

    expect([wrongKeys.wait("new"), wrongKeys.wait("known")]).toEqual([60, 0]);
    now = 60_000;
    expect(wrongKeys.wait("new")).toBe(0);
  });

  it("from an address that has sent the right one are refused, finally except for one check a second", () => {
    let now = 0;
    const wrongKeys = new WrongKeys(() => new Date(now));
    wrongKeys.right("nat");

    const waits = Array.from({ length: 100 }, () => [wrongKeys.wait("nat"), wrongKeys.wrong("nat")]);
    const looks = Array.from({ length: 50 }, () => wrongKeys.wait("nat"));
    now = 1000;
    const later = [wrongKeys.wait("nat"), wrongKeys.wait("nat")];

    expect(waits.filter(([wait]) => wait! > 0)).toEqual([]);
    expect(waits.filter(([, penalty]) => penalty === 0)).toHaveLength(10);
    expect(looks.filter((wait) => wait === 0)).toHaveLength(1);
    expect(later).toEqual([0, 1]);
  });
});

describeServer("a plugin", ({ start }) => {
  it("can check a key from a form", async () => {
    await using server = await start({
      plugins: [
        {
          name: "form",
          setup: ({ get }) =>
            get(ROUTER).add({
              ...route("/form", "none"),
              query: v.object({ k: v.string() }),
              handler: ({ event }) => {
                get(GATE).checkKey(event.url.searchParams.get("k") ?? "", event);
                return { now: get(CLOCK)() };
              },
            }),
        },
      ],
    });

    expect((await server.request("/form?k=wrong", { key: null })).status).toBe(401);
    expect((await server.request(`/form?k=${server.key}`, { key: null })).status).toBe(200);
  });
});

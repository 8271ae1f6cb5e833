import {
  CLOCK,
  defineRoute,
  GATE,
  type Plugin,
  ROUTER,
  type RouteDefinition,
  SESSIONS,
  ServiceError,
} from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { describe, expect, it } from "vitest";
import { WrongKeys } from "../../src/core/http/wrong-keys.ts";
import { describeServer, greeter } from "../_setup.ts";

const route = (path: string, auth: RouteDefinition["auth"]) =>
  defineRoute({
    method: "GET",
    path,
    auth,
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
        return cookie === "signed-in" ? "admin" : undefined;
      },
      challenge: (event) =>
        event.req.headers.get("accept") === "text/html"
          ? new Response("<h1>Sign in</h1>", { status: 401, headers: { "content-type": "text/html" } })
          : undefined,
    })),
};

describeServer("the key", ({ start }) => {
  it("is not asked for where a route is open", async () => {
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

  it("is asked for before anything else is looked at", async () => {
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

  it("that is right goes on working where it did before", async () => {
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

  it("does not open a route that needs the key", async () => {
    await using server = await start({ admin: false, plugins: [routes, sessions] });

    const response = await server.request("/keyed", { key: null, headers: { cookie: "signed-in" } });

    expect(response.status).toBe(401);
  });

  it("is asked for with the plugin's page or with the JSON error", async () => {
    await using server = await start({ admin: false, plugins: [routes, sessions] });

    const page = await server.request("/session", { key: null, headers: { accept: "text/html" } });
    const json = await server.request("/session", { key: null });
    const foreign = await server.request("/session", { key: null, headers: { cookie: "foreign" } });

    expect(page.status).toBe(401);
    expect(await page.text()).toBe("<h1>Sign in</h1>");
    expect(await json.json()).toMatchObject({ error_type: "unauthorized" });
    expect(foreign.status).toBe(403);
  });

  it("route needs the key where no plugin has sessions", async () => {
    await using server = await start({ plugins: [routes] });

    const response = await server.request("/session", { key: null, headers: { cookie: "signed-in" } });

    expect(response.status).toBe(401);
  });
});

describe("behind a proxy", () => {
  it("the address is the last one that the proxy names", async () => {
    await using server = await testServer({ agents: [greeter], plugins: [routes] });
    const from = (address: string, key: string) =>
      server.request("/keyed", { key, headers: { "x-forwarded-for": `203.0.113.9, ${address}` } });

    for (let attempt = 0; attempt < 12; attempt++) await from("198.51.100.1", "wrong");

    expect((await from("198.51.100.1", server.key)).status).toBe(429);
    expect((await from("198.51.100.2", server.key)).status).toBe(200);
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

  it("from ever new addresses do not fill the memory", () => {
    const wrongKeys = new WrongKeys(() => new Date(0));

    for (let attempt = 0; attempt < 11; attempt++) wrongKeys.wrong("first");
    for (let address = 0; address < 10_000; address++) wrongKeys.wrong(String(address));

    expect(wrongKeys.wait("first")).toBe(0);
  });
});

describeServer("a plugin", ({ start }) => {
  it("can check a key that came in a form", async () => {
    await using server = await start({
      plugins: [
        {
          name: "form",
          setup: ({ get }) =>
            get(ROUTER).add({
              ...route("/form", "none"),
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

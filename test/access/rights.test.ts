// @long
import { hash } from "node:crypto";
import {
  type AddedRoute,
  definePlugin,
  defineRoute,
  ROUTER,
  type RouteDefinition,
} from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { a2a } from "../../src/a2a.ts";
import { agUi } from "../../src/agui.ts";
import { grants, ROLES, type Role } from "../../src/core/models/access.ts";
import { mcp } from "../../src/mcp.ts";
import { greeter } from "../_setup.ts";
import { clerk, talker } from "../gate/_clerk.ts";
import { fillBlindly } from "../gate/_examples.ts";
import { guest } from "../gate/_guest.ts";

const keyOf = (role: Role) => `svck_test_${role}_${"x".repeat(43)}`;
const keys = ROLES.map((role) => ({ name: role, role, sha256: hash("sha256", keyOf(role), "hex") }));

let server: TestServer;
let routes: readonly AddedRoute[];

beforeAll(async () => {
  const schedules = [{ id: "yearly", cron: "@yearly", agent: clerk, catchUp: "none" as const }];
  const plugins = [guest, mcp(), a2a(), agUi()];
  server = await testServer({ agents: [clerk, talker], schedules, plugins, access: { keys } });
  routes = server.service.get(ROUTER).routes;
});
afterAll(() => server[Symbol.asyncDispose]());

async function call(route: AddedRoute, role: Role): Promise<number> {
  const { path, type, ...request } = fillBlindly(route);
  const response = await server.request(path, {
    ...request,
    redirect: "manual",
    key: keyOf(role),
    headers: { accept: "application/json", ...(type && { "content-type": type }) },
  });
  await response.body?.cancel();
  return response.status;
}

describe("every route of the service", () => {
  it("says what it needs, and what needs nothing is what anybody may know or do for themselves", () => {
    const free = routes
      .filter(({ needs }) => needs === "nothing")
      .map(({ method, path }) => `${method} ${path}`);

    expect(free.sort()).toEqual([
      "DELETE /admin/api/sign-in/program",
      "GET /.well-known/health",
      "GET /admin/assets/{hash}/{file}",
      "GET /admin/help",
      "GET /admin/sign-in",
      "GET /admin/sign-in/program",
      "GET /answer",
      "GET /answer/files/{sha256}",
      "GET /docs",
      "GET /docs/{file}",
      "GET /openapi.json",
      "GET /whoami",
      "POST /admin/api/sign-in/program",
      "POST /admin/density",
      "POST /admin/session",
      "POST /admin/session/end",
      "POST /admin/sign-in",
      "POST /admin/sign-in/program",
      "POST /admin/theme",
      "POST /admin/times",
      "POST /answer",
    ]);
  });

  it.each(ROLES)(
    "is open to the role %s exactly where it has the right",
    async (role) => {
      const isNarrow = role === "starter" || role === "answerer";
      const wrong: string[] = [];
      const seen = { refused: 0, let: 0 };
      for (const route of routes) {
        const may =
          grants(role, route.needs) && (!isNarrow || route.needs === "nothing" || route.narrows === true);
        const status = await call(route, role);
        const isRefused = status === 403;
        seen[isRefused ? "refused" : "let"]++;
        if ((status === 401 && route.auth !== "none") || isRefused === may)
          wrong.push(`${route.method} ${route.path}: ${status}`);
      }

      expect(wrong).toEqual([]);
      expect(seen.let).toBeGreaterThan(10);
      if (role !== "admin") expect(seen.refused).toBeGreaterThan(10);
    },
    300_000,
  );

  it("says in the document what it needs, and which roles have it", async () => {
    const document = (await (await server.request("/openapi.json")).json()) as {
      paths: Record<string, Record<string, Record<string, unknown>>>;
    };

    const wrong = routes.filter((route) => {
      if (route.hidden || route.auth === "none") return false;
      const operation = document.paths[route.path]![route.method.toLowerCase()]!;
      const roles = ROLES.filter((role) => grants(role, route.needs));
      return operation["x-needs"] !== route.needs || String(operation["x-roles"]) !== String(roles);
    });

    expect(wrong).toEqual([]);
  });
});

describe("a route of a plugin", () => {
  const declare = (route: Partial<RouteDefinition>) =>
    definePlugin({
      name: "one",
      setup: ({ get }) =>
        get(ROUTER).add({
          ...{ method: "GET", path: "/one", summary: "One", tag: "One", responses: {}, handler: () => ({}) },
          ...route,
        } as RouteDefinition),
    })();

  it("does not compile without what it needs, and does not start", async () => {
    // @ts-expect-error: `needs` is missing.
    const route: RouteDefinition = defineRoute({
      method: "GET",
      path: "/one",
      auth: "key",
      summary: "One",
      tag: "One",
      responses: {},
      handler: () => ({}),
    });

    await expect(testServer({ agents: [greeter], plugins: [declare(route)] })).rejects.toThrow(
      "Route GET /one does not say what it needs: set needs to view, answer, start, operate, manage or nothing",
    );
  });

  it("that asks for no key can need nothing only", async () => {
    await expect(
      testServer({ agents: [greeter], plugins: [declare({ auth: "none", needs: "view" })] }),
    ).rejects.toThrow('has the auth "none" and needs "view"');
  });
});

// @long
// @area service admin protocols
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { signIn } from "../admin/_sign-in.ts";
import { ATTACKS, inspect, leaks } from "./_attacks.ts";
import { Declared } from "./_declared.ts";
import { fill } from "./_examples.ts";
import { type Got, send } from "./_send.ts";
import { CANARIES, openWorld, type World } from "./_world.ts";

const LONG = 600_000;
/** On a connection of its own: one that is idle may end while a request for it is on its way. */
const ALONE = { connection: "close" };
let world: World;

beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world[Symbol.asyncDispose]());

/** Does something with every route of the service; resolves with the problems, each with its route. */
async function everyRoute(look: (route: World["routes"][number]) => Promise<string[]>): Promise<string[]> {
  const found: string[] = [];
  for (const route of world.routes)
    found.push(...(await look(route)).map((problem) => `${route.method} ${route.path}: ${problem}`));
  return found;
}

/** Routes whose whole purpose is to refuse in the words of their protocol. */
const REFUSES: ReadonlySet<string> = new Set(["GET /a2a/{slug}/extendedAgentCard"]);

describe("every route of the service", () => {
  it("is in the table, including those of plugins", () => {
    const paths = world.routes.map(({ path }) => path);

    expect(paths.length).toBeGreaterThan(90);
    expect(paths).toEqual(
      expect.arrayContaining(["/agents", "/admin/", "/admin/api/jobs", "/docs", "/metrics", "/guest/{id}"]),
    );
  });

  it.each(Object.keys(ATTACKS))(
    "withstands: %s",
    async (name) => {
      expect(await everyRoute((route) => ATTACKS[name]!(world, route))).toEqual([]);
      expect(leaks(world.said())).toEqual([]);
    },
    LONG,
  );

  it(
    "returns what is declared for it, and no secret, to programs and to people",
    async () => {
      const document = await (await world.server.request("/openapi.json")).json();
      const declared = new Declared(document as Record<string, unknown>);
      const reached = new Set<string>();

      const problems = await everyRoute(async (route) => {
        const found: string[] = [];
        for (const accept of ["application/json", "text/html"]) {
          for (const way of ["key", "session"] as const) {
            if (way === "session" && route.auth !== "session") continue;
            const got = await ask(route, { accept, way });
            found.push(...inspect(got));
            const name = `${route.method} ${route.path}`;
            if (got.status < 400 || REFUSES.has(name)) reached.add(name);
            if (!route.hidden && accept === "application/json") found.push(...declared.problems(route, got));
            else if (!(got.status in route.responses) && got.status < 400)
              found.push(`${got.status} is not declared`);
            if (got.status >= 400 !== REFUSES.has(name))
              found.push(`answered ${got.status} to its example: ${got.text.slice(0, 300)}`);
          }
        }
        return found;
      });

      expect(problems).toEqual([]);
      expect(leaks(world.said())).toEqual([]);
      expect(declared.operations().filter((operation) => !reached.has(operation))).toEqual([]);
    },
    LONG,
  );
});

/** Sends a route's example as its program or its page does. */
async function ask(
  route: World["routes"][number],
  { accept, way }: { accept: string; way: "key" | "session" },
): Promise<Got> {
  const who: Record<string, string> =
    way === "key"
      ? { "x-api-key": world.key }
      : { cookie: await signIn(world.server, "", ALONE), origin: world.url };
  const { method, path, type, body, headers } = await fill(world, route, who);
  return world.send({
    method,
    path,
    body,
    headers: { accept, ...who, ...(type !== undefined && { "content-type": type }), ...headers },
  });
}

describe("the attacks of this suite", () => {
  it.each(Object.keys(ATTACKS))("find a problem in an unprotected service: %s", async (name) => {
    const open = createServer((_request, response) => response.end(CANARIES.apiKey));
    await new Promise<void>((resolve) => open.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(open.address() as AddressInfo).port}`;
    const route = world.routes.find(({ path, method }) => path === "/guest/{id}" && method === "PUT")!;

    const problems = await ATTACKS[name]!({ ...world, send: (sent) => send(url, sent) }, route);
    open.close();

    expect(problems).toContainEqual(expect.stringContaining("holds apiKey"));
    expect(problems.some((problem) => problem.includes("answered 200"))).toBe(true);
  });

  it("recognize a response that does not match its declaration", async () => {
    const document = (await (await world.server.request("/openapi.json")).json()) as Record<string, unknown>;
    const declared = new Declared(document);
    const route = { method: "GET", path: "/guest/{id}" };
    const got = (value: unknown, status = 200): Got => ({
      status,
      headers: { "content-type": "application/json" },
      text: JSON.stringify(value),
    });

    expect(declared.problems(route, got({ id: "x", text: "y" }))).toEqual([]);
    expect(declared.problems(route, got({ id: "x", text: 5 }))).toHaveLength(1);
    expect(declared.problems(route, got({ id: "x" }))).toHaveLength(1);
    expect(declared.problems(route, got({ id: "x", text: "y", more: 1 }))).toHaveLength(1);
    expect(declared.problems(route, got({}, 203))).toHaveLength(1);
    expect(declared.problems(route, got({}, 404)).length).toBeGreaterThan(0);
    expect(declared.problems({ ...route, path: "/nowhere" }, got({}))).toHaveLength(1);
  });
});

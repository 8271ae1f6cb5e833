import { ServiceError } from "agent-control-service";
import { defineRoute, type Plugin, ROUTER, type RouteDefinition } from "agent-control-service/plugin";
import * as v from "valibot";
import { expect, it } from "vitest";
import { pageQuery } from "../../src/core/http/query.ts";
import { describeServer } from "../_setup.ts";

const routes: RouteDefinition[] = [
  defineRoute({
    method: "GET",
    path: "/things/{id}",
    auth: "key",
    needs: "view",
    summary: "One thing",
    tag: "Things",
    params: v.object({ id: v.pipe(v.string(), v.maxLength(20)) }),
    query: v.object({
      ...pageQuery({ max: 100, default: 50 }),
      kind: v.optional(v.picklist(["a", "b"])),
      search: v.optional(v.pipe(v.string(), v.maxLength(3))),
      state: v.optional(v.union([v.picklist(["a", "b"]), v.literal("")])),
    }),
    responses: { 200: { description: "The thing" } },
    handler: ({ params, query, actor }) => ({ ...params, ...query, actor }),
  }),
  defineRoute({
    method: "POST",
    path: "/things",
    auth: "key",
    needs: "view",
    summary: "Makes a thing",
    tag: "Things",
    body: v.object({
      name: v.string(),
      count: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0)), 1),
      options: v.optional(v.object({ deep: v.optional(v.unknown()) }), {}),
      map: v.optional(v.record(v.string(), v.unknown()), {}),
    }),
    responses: { 201: { description: "The thing" } },
    status: 201,
    handler: ({ body }) => body,
  }),
  defineRoute({
    method: "POST",
    path: "/notes",
    auth: "none",
    needs: "nothing",
    summary: "Takes a note",
    tag: "Things",
    body: v.object({
      text: v.pipe(v.string(), v.nonEmpty("Please fill this in.")),
      kind: v.optional(v.pipe(v.string(), v.regex(/^[a-z]+$/)), "a"),
    }),
    responses: { 200: { description: "The note" } },
    handler: ({ body }) => body,
  }),
  defineRoute({
    method: "POST",
    path: "/numbers",
    bodyLimit: 1_000_000,
    auth: "none",
    needs: "nothing",
    summary: "Takes numbers",
    tag: "Things",
    body: v.record(v.string(), v.number()),
    responses: { 200: { description: "The numbers" } },
    handler: ({ body }) => body,
  }),
  defineRoute({
    method: "GET",
    path: "/text",
    auth: "none",
    needs: "nothing",
    summary: "A JSON string",
    tag: "Things",
    responses: { 200: { description: "Text" } },
    handler: () => "plain",
  }),
  defineRoute({
    method: "GET",
    path: "/nothing",
    auth: "none",
    needs: "nothing",
    summary: "No content",
    tag: "Things",
    responses: { 204: { description: "Nothing" } },
    handler: () => undefined,
  }),
  defineRoute({
    method: "GET",
    path: "/bug",
    auth: "none",
    needs: "nothing",
    summary: "Fails unexpectedly",
    tag: "Things",
    responses: { 200: { description: "Never" } },
    handler: () => {
      throw new TypeError("secret internals");
    },
  }),
  defineRoute({
    method: "DELETE",
    path: "/things/{id}",
    auth: "key",
    needs: "view",
    summary: "Removes a thing",
    tag: "Things",
    params: v.object({ id: v.string() }),
    responses: { 200: { description: "Gone" } },
    handler: ({ params }) => {
      throw new ServiceError("forbidden", `Thing "${params.id}" stays`, { detail: "Ask its owner." });
    },
  }),
];

const things: Plugin = {
  name: "things",
  setup: (context) => {
    for (const route of routes) context.get(ROUTER).add(route);
  },
};

describeServer("routes", ({ start }) => {
  const serve = () => start({ plugins: [things] });

  it("pass checked parameters, query and actor to the handler", async () => {
    await using server = await serve();

    const response = await server.request("/things/a%20b%2Fc?limit=7&kind=a");

    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(await response.json()).toEqual({ id: "a b/c", limit: 7, skip: 0, kind: "a", actor: "api-key" });
  });

  it("respond the same with a trailing slash, and to HEAD without a body", async () => {
    await using server = await serve();

    const slash = await server.request("/things/x/");
    const head = await server.request("/things/x", { method: "HEAD" });

    expect(slash.status).toBe(200);
    expect(head.status).toBe(200);
    expect(await head.text()).toBe("");
  });

  it("return text as a JSON string and nothing as 204", async () => {
    await using server = await serve();

    const text = await server.request("/text", { key: null });
    const nothing = await server.request("/nothing", { key: null });

    expect(await text.json()).toBe("plain");
    expect(nothing.status).toBe(204);
  });

  it("fill in defaults and respond with the declared status", async () => {
    await using server = await serve();

    const response = await server.request("/things", { json: { name: "x" } });

    expect(response.status).toBe(201);
    expect(await response.json()).toEqual({ name: "x", count: 1, options: {}, map: {} });
  });

  it.each([
    ["limit=0", "limit must be a whole number from 1 to 100."],
    ["limit=101", "limit must be a whole number from 1 to 100."],
    ["limit=NaN", "limit must be a whole number from 1 to 100."],
    ["limit=1.5", "limit must be a whole number from 1 to 100."],
    ["limit=", "limit must be a whole number from 1 to 100."],
    ["skip=-1", "skip must be a whole number from 0 to 9007199254740991."],
    ["kind=c", "kind must be one of a, b."],
    ["kind=a&kind=a", "kind is set more than once."],
    ["kind=a&search=long", "search must have at most 3 characters."],
    ["state=c", "state must be one of a, b."],
    ["unknown=1", "unknown is not known here, only limit, skip, kind, search, state."],
    ["knid=a&limit=0", "knid is not known: did you mean kind?; limit must be a whole number from 1 to 100."],
    ["limit=0&kind=c", "limit must be a whole number from 1 to 100; kind must be one of a, b."],
  ])("refuse the query %s, naming each field", async (query, detail) => {
    await using server = await serve();

    const response = await server.request(`/things/x?${query}`);

    expect(response.status).toBe(422);
    expect(await response.json()).toMatchObject({
      error: "The request's query is not valid",
      error_type: "invalid_request",
      detail,
      status_code: 422,
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
    });
  });

  it.each([
    [{}, "name is missing."],
    [[], "the body must be an object; name is missing; map must be an object."],
    [null, "the body must be an object."],
    [{ name: 5, count: -1 }, "name must be a string; count must be at least 0."],
    [{ name: "x", count: 1.5 }, "count must be a whole number."],
    [{ name: "x", options: [] }, "options must be an object."],
    [{ name: "x", extra: true }, "extra is not known here, only name, count, options, map."],
    [{ name: "x", options: { depe: 1 } }, "options.depe is not known: did you mean deep?"],
    [{ name: "x", map: [1] }, "map must be an object."],
  ])("refuse the body %j, naming each field", async (json, detail) => {
    await using server = await serve();

    const response = await server.request("/things", { json });

    expect(response.status).toBe(422);
    expect(await response.json()).toMatchObject({ error_type: "invalid_request", detail });
  });

  it("report a schema's own message unchanged, and a pattern in words", async () => {
    await using server = await serve();

    const response = await server.request("/notes", { json: { text: "", kind: "hunter2" } });

    const { detail } = (await response.json()) as { detail: string };
    expect(detail).toBe("text: Please fill this in; kind must match /^[a-z]+$/.");
  });

  it("refuse a query whose percent-encoded text is not UTF-8", async () => {
    await using server = await serve();

    const broken = await server.request("/things/x?search=%FF");
    const fine = await server.request("/things/x?search=%C3%BC%25");

    expect([broken.status, fine.status]).toEqual([400, 200]);
    expect(await broken.json()).toMatchObject({ error: "The request's query is not valid UTF-8" });
    expect(await fine.json()).toMatchObject({ search: "ü%" });
  });

  it("name twenty problems and count the rest", async () => {
    await using server = await serve();
    const map = Object.fromEntries(Array.from({ length: 60_000 }, (_, at) => [`f${at}`, "x"]));

    const response = await server.request("/numbers", { json: map });
    const text = await response.text();

    expect(response.status).toBe(422);
    expect(text).toContain("f19 must be a number; and 59980 more.");
    expect(text.length).toBeLessThan(2000);
  });

  it("do not repeat a refused value", async () => {
    await using server = await serve();

    const response = await server.request("/things", {
      json: { name: { secret: "hunter2" }, count: "hunter2" },
    });

    expect(response.status).toBe(422);
    expect(await response.text()).not.toContain("hunter2");
  });

  it("refuse values that are nested too deeply, and numbers out of range", async () => {
    await using server = await serve();
    const post = (body: string) =>
      server.request("/things", { method: "POST", body, headers: { "content-type": "application/json" } });

    const deep = await post(`{"name":"x","options":{"deep":${"[".repeat(5000)}${"]".repeat(5000)}}}`);
    const large = await post(`{"name":"x","options":{"deep":1e999}}`);
    const fine = await post(`{"name":"x","options":{"deep":${"[".repeat(90)}${"]".repeat(90)}}}`);

    expect([deep.status, large.status, fine.status]).toEqual([422, 422, 201]);
    expect(await deep.json()).toMatchObject({ detail: "Values are nested deeper than 100 levels." });
  });

  it("keep a __proto__ key from becoming a prototype", async () => {
    await using server = await serve();

    const response = await server.request("/things", {
      method: "POST",
      body: '{"name":"x","options":{"deep":{"__proto__":{"polluted":true}}}}',
      headers: { "content-type": "application/json" },
    });

    expect(response.status).toBe(201);
    expect(await response.text()).toContain('"__proto__":{"polluted":true}');
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });

  it.each([
    ["a broken text", "{", 400, "invalid_request"],
    ["NaN", '{"name":NaN}', 400, "invalid_request"],
  ])("refuse %s as malformed JSON", async (_name, body, status, type) => {
    await using server = await serve();

    const response = await server.request("/things", {
      method: "POST",
      body,
      headers: { "content-type": "application/json" },
    });

    expect(response.status).toBe(status);
    expect(await response.json()).toMatchObject({ error_type: type, status_code: status });
  });

  it("accept only JSON bodies", async () => {
    await using server = await serve();
    const post = (type: string) =>
      server.request("/things", { method: "POST", body: '{"name":"x"}', headers: { "content-type": type } });

    const statuses = [];
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "application/jsonp",
      "application/json; charset=utf-8",
      "application/problem+json",
    ]) {
      statuses.push((await post(type)).status);
    }

    expect(statuses).toEqual([415, 415, 415, 201, 201]);
  });

  it("refuse a missing body", async () => {
    await using server = await serve();

    const response = await server.request("/things", { method: "POST" });

    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ detail: "Send the request's body as JSON." });
  });

  it("refuse a body over the limit, with a length and without one", async () => {
    await using server = await start({ plugins: [things], bodyLimit: 1000 });
    const body = JSON.stringify({ name: "x".repeat(2000) });
    const headers = { "content-type": "application/json" };
    const stream = new Blob([body]).stream();

    const known = await server.request("/things", { method: "POST", body, headers });
    const streamed = await server.request("/things", {
      method: "POST",
      body: stream,
      headers,
      duplex: "half",
    } as RequestInit);

    expect([known.status, streamed.status]).toEqual([413, 413]);
    expect(await known.json()).toMatchObject({ error_type: "payload_too_large", status_code: 413 });
    expect(await streamed.json()).toMatchObject({ error_type: "payload_too_large" });
  });

  it("report the methods that a path accepts", async () => {
    await using server = await serve();

    const post = await server.request("/things/x", { method: "POST" });
    const options = await server.request("/things", { method: "OPTIONS" });

    expect([post.status, options.status]).toEqual([405, 405]);
    expect(post.headers.get("allow")).toBe("DELETE, GET, HEAD");
    expect(options.headers.get("allow")).toBe("POST");
    expect(await post.json()).toMatchObject({ error_type: "invalid_request", status_code: 405 });
  });

  it.each(["/nowhere", "/things/x/y", "//things", "/THINGS"])(
    "respond to %s with not_found",
    async (path) => {
      await using server = await serve();

      const response = await server.request(path.replace("//", "/./%2e//"));

      expect(response.status).toBe(404);
      expect(await response.json()).toMatchObject({ error_type: "not_found", status_code: 404 });
    },
  );

  it("refuse a path with broken percent encoding", async () => {
    await using server = await serve();

    const response = await server.request("/things/%zz");

    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error_type: "invalid_request" });
  });

  it("return an expected failure unchanged", async () => {
    await using server = await serve();

    const response = await server.request("/things/x", { method: "DELETE" });

    expect(response.status).toBe(403);
    expect(await response.json()).toMatchObject({
      error: 'Thing "x" stays',
      error_type: "forbidden",
      detail: "Ask its owner.",
    });
  });

  it("hide an unexpected failure and say where to find it", async () => {
    await using server = await serve();

    const response = await server.request("/bug");
    const answer = (await response.json()) as { detail: string };

    expect(response.status).toBe(500);
    expect(JSON.stringify(answer)).not.toContain("internals");
    const id = /[0-9a-f-]{36}/.exec(answer.detail)?.[0];
    expect(server.logs.join("")).toContain(`error_id=${id}`);
    expect(server.logs.join("")).toContain("secret internals");
  });

  it("are logged at debug level, without their query", async () => {
    await using server = await start({ plugins: [things], logLevel: "debug" });

    await server.request("/things/x?kind=a&search=hid");

    await expect.poll(() => server.logs.join("")).toContain("request method=GET path=/things/x status=200");
    expect(server.logs.join("")).not.toContain("hid");
  });
});

// @long
import { defineAgent } from "agent-control-service";
import { definePlugin, defineRoute, ROUTER, type RouteDefinition } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { type } from "arktype";
import * as v from "valibot";
import { expect, it } from "vitest";
import * as z from "zod";

const agent = defineAgent({ name: "Greeter", version: "1.0.0", methods: { job_start: { run: () => ({}) } } });

const SCHEMAS = {
  valibot: {
    params: v.object({ id: v.string() }),
    query: v.object({ loud: v.optional(v.picklist(["yes", "no"]), "no") }),
    body: v.object({ phone: v.pipe(v.string(), v.minLength(3)), address: v.object({ city: v.string() }) }),
    person: v.object({ id: v.string(), loud: v.string(), city: v.string() }),
  },
  zod: {
    params: z.object({ id: z.string() }),
    query: z.object({ loud: z.enum(["yes", "no"]).default("no") }),
    body: z.object({ phone: z.string().min(3), address: z.object({ city: z.string() }) }),
    person: z.object({ id: z.string(), loud: z.string(), city: z.string() }),
  },
  arktype: {
    params: type({ id: "string" }),
    query: type({ loud: "'yes' | 'no' = 'no'" }),
    body: type({ phone: "string >= 3", address: { city: "string" } }),
    person: type({ id: "string", loud: "string", city: "string" }),
  },
};

const book = definePlugin({
  name: "book",
  setup({ get }) {
    const shared = {
      method: "PUT",
      auth: "key",
      needs: "view",
      summary: "Adds a person",
      tag: "Book",
    } as const;
    for (const [library, { params, query, body, person }] of Object.entries(SCHEMAS) as [
      string,
      (typeof SCHEMAS)["zod"],
    ][])
      get(ROUTER).add(
        defineRoute({
          ...shared,
          ...{ path: `/${library}/{id}`, params, query, body },
          responses: { 200: { description: "The person", schema: person } },
          handler: ({ params, query, body }) => ({
            id: params.id,
            loud: query.loud,
            city: body.address.city,
          }),
        }),
      );
  },
});

interface Operation {
  readonly parameters: readonly { readonly name: string }[];
  readonly requestBody: Content;
  readonly responses: Readonly<Record<string, Content>>;
}
interface Content {
  readonly content: { readonly "application/json": { readonly schema: Record<string, unknown> } };
}

const BODY = { phone: "12345", address: { city: "Oslo" } };

it.each(Object.keys(SCHEMAS))("a route with schemas of %s checks, describes and answers", async (library) => {
  await using server = await testServer({ agents: [agent], plugins: [book()] });
  const put = async (json: unknown, query = "") => {
    const response = await server.request(`/${library}/ann${query}`, { method: "PUT", json });
    return [response.status, await response.text()] as const;
  };

  expect(await put(BODY)).toEqual([200, '{"id":"ann","loud":"no","city":"Oslo"}']);
  expect(await put(BODY, "?loud=yes")).toEqual([200, '{"id":"ann","loud":"yes","city":"Oslo"}']);
  for (const [json, query, problem] of [
    [{ ...BODY, phone: "1" }, "", /phone must (have at least 3 characters|be at least length 3)/],
    [{ ...BODY, phone: 5 }, "", /phone must be a string/],
    [{ phone: "123" }, "", /address is (missing|required)/],
    [{ ...BODY, fone: "1" }, "", /fone is not known: did you mean phone\?/],
    [{ ...BODY, address: { city: "Oslo", citi: "x" } }, "", /address\.citi is not known/],
    [BODY, "?loud=maybe", /loud must be (one of yes, no|\\"no\\" or \\"yes\\")/],
    [BODY, "?laud=yes", /laud is not known: did you mean loud\?/],
    [undefined, "", /body/],
  ] as const) {
    const [status, text] = await put(json, query);
    expect([status, text]).toEqual([
      expect.toSatisfy((one: number) => one === 422 || one === 400),
      expect.stringMatching(problem),
    ]);
  }

  const { paths } = (await (await server.request("/openapi.json")).json()) as {
    paths: Record<string, { put: Operation }>;
  };
  const operation = paths[`/${library}/{id}`]!.put;
  expect(operation.parameters.map(({ name }) => name)).toEqual(["id", "loud"]);
  const { schema } = operation.requestBody.content["application/json"];
  expect(schema).toMatchObject({
    required: expect.arrayContaining(["phone", "address"]),
    properties: {
      phone: { type: "string", minLength: 3 },
      address: { properties: { city: { type: "string" } } },
    },
    additionalProperties: false,
  });
  expect(operation.responses["200"]!.content["application/json"].schema.properties).toHaveProperty("city");
});

/** A plugin whose only route has these schemas. */
const withRoute = (schemas: Partial<RouteDefinition>) =>
  definePlugin({
    name: "one",
    setup({ get }) {
      const shared = {
        method: "POST",
        path: "/one/{id}",
        auth: "key",
        needs: "view",
        summary: "One",
        tag: "One",
      } as const;
      get(ROUTER).add(
        defineRoute({
          ...shared,
          params: z.object({ id: z.string() }),
          responses: {},
          handler: () => ({}),
          ...schemas,
        }),
      );
    },
  });

it.each([
  [
    "of valibot",
    v.pipeAsync(
      v.string(),
      v.checkAsync(async () => true),
    ),
  ],
  ["of zod", z.any().refine(async () => true)],
])("an asynchronous schema %s is refused where its route is added", async (_library, body) => {
  const started = testServer({ agents: [agent], plugins: [withRoute({ body })()] });

  await expect(started).rejects.toThrow(/POST \/one\/\{id\}, body: its schema .*must be synchronous/);
});

it("a schema that is asynchronous for some values fails its request, and the log says why", async () => {
  const body = z.object({ name: z.string().refine(async () => true) });
  await using server = await testServer({ agents: [agent], plugins: [withRoute({ body })()] });

  const response = await server.request("/one/1", { json: { name: "x" } });

  expect(response.status).toBe(500);
  expect(server.logs.join("")).toMatch(/POST \/one\/\{id\}, body: its schema of zod is asynchronous/);
});

it("a parameter that a schema of another library lacks is refused where its route is added", async () => {
  const started = testServer({
    agents: [agent],
    plugins: [withRoute({ params: z.object({ ib: z.string() }) })()],
  });

  await expect(started).rejects.toThrow('has no schema for "id": add it to params');
});

it("the document shows what a schema refers to, and is open where it refers to itself", async () => {
  const address = z.object({ city: z.string() }).meta({ id: "Address" });
  const person = z.object({
    home: address,
    work: address,
    get friends() {
      return z.array(person);
    },
    // Names of members that are keywords too.
    default: address,
    properties: z.object({ enum: z.string() }),
  });
  await using server = await testServer({ agents: [agent], plugins: [withRoute({ body: person })()] });

  const { paths } = (await (await server.request("/openapi.json")).json()) as {
    paths: Record<string, { post: Operation }>;
  };

  const city = {
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
    additionalProperties: false,
  };
  expect(paths["/one/{id}"]!.post.requestBody.content["application/json"].schema.properties).toMatchObject({
    home: city,
    work: city,
    friends: { type: "array", items: {} },
    default: city,
    properties: { properties: { enum: { type: "string" } }, additionalProperties: false },
  });
});

it("a body that may be missing is optional, in the document too", async () => {
  const body = z.object({ name: z.string() }).default({ name: "nobody" });
  await using server = await testServer({ agents: [agent], plugins: [withRoute({ body })()] });

  const { paths } = (await (await server.request("/openapi.json")).json()) as {
    paths: Record<string, { post: { requestBody: { required: boolean } } }>;
  };

  expect(paths["/one/{id}"]!.post.requestBody.required).toBe(false);
  expect((await server.request("/one/1", { method: "POST" })).status).toBe(200);
});

it("a secret that is a word of a schema of another library does not change what is sent", async () => {
  const answer = { status: "completed", note: "completed", inner: { completed: [{ status: "completed" }] } };
  const status = z.enum(["completed", "failed"]);
  const schema = z.object({
    status,
    note: z.string(),
    inner: z.object({ completed: z.array(z.object({ status })) }),
  });
  const plugin = withRoute({ responses: { 200: { description: "It", schema } }, handler: () => answer });
  await using server = await testServer({ agents: [agent], plugins: [plugin()], apiKey: "completed" });

  const response = await server.request("/one/1", { method: "POST" });

  expect(await response.json()).toEqual({ ...answer, note: "[secret]" });
});

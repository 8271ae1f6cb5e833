import { Validator } from "@seriousme/openapi-schema-validator";
import { defineAgent, defineChat, docs } from "agent-control-service";
import { a2a } from "agent-control-service/a2a";
import { agUi } from "agent-control-service/agui";
import { mcp } from "agent-control-service/mcp";
import { defineRoute, type Plugin, ROUTER } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { greeter } from "../_setup.ts";

const thirdParty: Plugin = {
  name: "third-party",
  setup: ({ get }) =>
    get(ROUTER).add(
      defineRoute({
        method: "GET",
        path: "/weather/{town}",
        auth: "none",
        needs: "nothing",
        summary: "The weather in a town",
        tag: "Weather",
        params: v.object({ town: v.string() }),
        query: v.object({ unit: v.optional(v.picklist(["c", "f"]), "c") }),
        responses: { 200: { description: "The weather", schema: v.object({ degrees: v.number() }) } },
        handler: () => ({ degrees: 20 }),
      }),
    ),
};

const form = defineAgent({
  name: "Form",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: [
        { name: "one", field_type: "ChoiceField", choices: ["a", ["b", "B"]] },
        { name: "many", field_type: "MultipleChoiceField", choices: ["a", "b"] },
        { name: "papers", field_type: "FileField", type: "array" },
      ],
      run: () => 1,
    },
  },
});
const talker = defineChat({ name: "Talker", version: "1.0.0", reply: () => "hello" });
const whole = {
  agents: [form, talker],
  plugins: [a2a(), agUi(), mcp()],
  receivers: [{ name: "hub", verify: "github" as const, secret: "0123456789abcdef0123456789abcdef" }],
};
const LIST_TOOLS = { jsonrpc: "2.0", id: 1, method: "tools/list" };

describe("the OpenAPI document", () => {
  it("is valid OpenAPI 3.1", async () => {
    await using server = await testServer({ agents: [greeter], plugins: [thirdParty] });

    const response = await server.request("/openapi.json", { key: null });
    const document = (await response.json()) as Record<string, unknown>;
    const result = await new Validator().validate(document);

    expect(response.status).toBe(200);
    expect(document.openapi).toBe("3.1.1");
    expect(result).toEqual({ valid: true });
  });

  it("is compressed for clients that accept that, and not sent again to clients that have it", async () => {
    await using server = await testServer({ agents: [greeter] });
    const get = (headers: Record<string, string>) => server.request("/openapi.json", { headers });

    const plain = await get({ "accept-encoding": "identity" });
    const packed = await get({ "accept-encoding": "gzip" });
    const again = await get({ "if-none-match": packed.headers.get("etag") ?? "" });

    expect([plain.headers.get("content-encoding"), packed.headers.get("content-encoding")]).toEqual([
      null,
      "gzip",
    ]);
    expect(await packed.json()).toEqual(await plain.json());
    expect(again.status).toBe(304);
  });

  it("has every route, including those of third parties", async () => {
    await using server = await testServer({ agents: [greeter], plugins: [thirdParty] });

    const document = await readDocument(server);
    const documented = Object.entries(document.paths).flatMap(([path, operations]) =>
      Object.keys(operations as object).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const routes = server.service
      .get(ROUTER)
      .routes.filter((route) => !route.hidden)
      .map(({ method, path }) => `${method} ${path}`);

    expect(documented.sort()).toEqual(routes.sort());
    expect(documented).toContain("GET /weather/{town}");
  });

  it("says of every operation what a request needs, also where that is nothing", async () => {
    await using server = await testServer({ agents: [greeter], plugins: [thirdParty] });

    const document = await readDocument(server);
    const routes = server.service.get(ROUTER).routes.filter((route) => !route.hidden);
    const open = routes.filter(({ auth }) => auth === "none");

    expect(open.length).toBeGreaterThan(2);
    for (const { method, path, auth } of routes) {
      const operations = document.paths[path] as Record<string, { security?: readonly object[] }>;
      const { security } = operations[method.toLowerCase()]!;
      expect(security?.length === 0, `${method} ${path}`).toBe(auth === "none");
      expect(security, `${method} ${path}`).toBeDefined();
    }
  });

  it("names the license, and a contact where the service gives one", async () => {
    await using plain = await testServer({ agents: [greeter] });
    const contact = { name: "The desk", url: "https://example.com/help", email: "api@example.com" };
    const license = { name: "Ours", url: "https://example.com/license" };
    await using own = await testServer({ agents: [greeter], plugins: [docs({ contact, license })] });

    expect((await readDocument(plain)).info).toMatchObject({ license: { name: "MIT", identifier: "MIT" } });
    expect((await readDocument(plain)).info).not.toHaveProperty("contact");
    expect((await readDocument(own)).info).toMatchObject({ contact, license });
    expect(await new Validator().validate(await readDocument(own))).toEqual({ valid: true });
    const both = { ...license, identifier: "MIT" };
    for (const wrong of [
      { contact: { email: "nobody" } },
      { license: both },
      { contact: { phone: "1" } as never },
    ])
      await expect(testServer({ agents: [greeter], plugins: [docs(wrong)] })).rejects.toThrow(/docs/);
  });

  it("says in a sentence what each operation of the service and of its protocols does", async () => {
    await using server = await testServer(whole);

    const { paths } = await readDocument(server);
    const operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods as Record<string, { summary: string; description?: string }>).map(
        ([method, { summary, description = "" }]) => ({ name: `${method} ${path}`, summary, description }),
      ),
    );

    expect(operations.length).toBeGreaterThan(150);
    // A summary is a title, without a full stop; a description says more, in sentences.
    expect(operations.filter(({ summary }) => !/^[A-Z][^\n]{5,78}[^.\n]$/.test(summary))).toEqual([]);
    expect(operations.filter(({ description }) => !/^[A-Z`\d].*[\w`)]\.$/s.test(description))).toEqual([]);
    expect(operations.filter(({ summary, description }) => description === `${summary}.`)).toEqual([]);
  });

  it("says of every list what is in it, and so do the schemas of fields in each protocol", async () => {
    await using server = await testServer(whole);

    const tools = (await (await server.request("/mcp", { json: LIST_TOOLS })).json()) as object;
    const card = (await (await server.request("/a2a/form/.well-known/agent-card.json")).json()) as object;
    const documents = { openapi: await readDocument(server), tools, card };

    for (const [name, document] of Object.entries(documents)) {
      const lists = [...listsIn(document)];
      expect(lists.length, name).toBeGreaterThan(1);
      expect(
        lists.filter(({ items }) => typeof items !== "object" || items === null),
        name,
      ).toEqual([]);
    }
    const fields = {
      one: { type: "string", oneOf: [{ const: "a" }, { const: "b", title: "B" }] },
      many: { type: "array", items: { type: "string", enum: ["a", "b"] } },
      papers: { type: "array", items: { type: "object" } },
    };
    for (const shown of [tools, card]) expect(propertiesIn(shown)).toMatchObject(fields);
  });

  it("refers to named schemas, all of which are included", async () => {
    await using server = await testServer({ agents: [greeter] });

    const document = await readDocument(server);
    const references = [...JSON.stringify(document).matchAll(/"#\/components\/schemas\/([^"]+)"/g)];
    const named = Object.keys(document.components.schemas);

    expect(references.length).toBeGreaterThan(0);
    expect(references.filter(([, name]) => !named.includes(name!))).toEqual([]);
    expect(document.components.schemas.ErrorResponse?.required).toContain("detail");
  });
});

/** All lists in schemas. */
function* listsIn(value: unknown): Generator<Record<string, unknown>> {
  if (typeof value !== "object" || value === null) return;
  if ("type" in value && [value.type].flat().includes("array")) yield value as Record<string, unknown>;
  for (const one of Object.values(value)) yield* listsIn(one);
}

/** The properties of the schema of the form, wherever it is. */
function propertiesIn(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return undefined;
  if ("properties" in value && JSON.stringify(value.properties).includes('"papers"')) {
    const { properties } = value as { properties: Record<string, unknown> };
    if ("papers" in properties) return properties;
  }
  return Object.values(value)
    .map(propertiesIn)
    .find((found) => found !== undefined);
}

async function readDocument(server: TestServer) {
  return (await (await server.request("/openapi.json")).json()) as {
    info: Record<string, unknown>;
    paths: Record<string, Record<string, unknown>>;
    components: { schemas: Record<string, { required?: string[] }> };
  };
}

import { Validator } from "@seriousme/openapi-schema-validator";
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

async function readDocument(server: TestServer) {
  return (await (await server.request("/openapi.json")).json()) as {
    paths: Record<string, Record<string, unknown>>;
    components: { schemas: Record<string, { required?: string[] }> };
  };
}

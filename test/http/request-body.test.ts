import { H3_APP } from "agent-control-service/h3";
import { defineRoute, type Plugin, ROUTER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { expect, it } from "vitest";
import { describeServer, greeter } from "../_setup.ts";

const common = { auth: "none", needs: "nothing", summary: "A body", tag: "Bodies" } as const;
const responses = { 200: { description: "What came" } };

const bodies: Plugin = {
  name: "bodies",
  setup: ({ get }) => {
    const app = get(H3_APP);
    const router = get(ROUTER);
    router.add(
      defineRoute({
        ...common,
        method: "POST",
        path: "/parsed",
        body: v.object({ text: v.string() }),
        responses,
        handler: ({ body }) => body,
      }),
    );
    router.add(
      defineRoute({
        ...common,
        method: "POST",
        path: "/unread",
        responses,
        handler: () => "acted",
      }),
    );
    router.add(
      defineRoute({
        ...common,
        method: "POST",
        path: "/own",
        bodyLimit: 100,
        rawBody: true,
        responses,
        handler: async ({ event }) => ({ text: await event.req.text() }),
      }),
    );
    router.add(
      defineRoute({
        ...common,
        method: "POST",
        path: "/large",
        bodyLimit: 500_000,
        rawBody: true,
        responses,
        handler: async ({ event }) => ({ text: (await event.req.text()).length }),
      }),
    );
    app.post("/raw", async (event) => ({ text: (await event.req.text()).length }));
  },
};

const json = { "content-type": "application/json" };
const form = { "content-type": "application/x-www-form-urlencoded" };

/** A body that is sent in chunks, its length unsaid. */
function chunked(bytes: number): RequestInit {
  const stream = new Blob(["x".repeat(bytes)]).stream();
  return { method: "POST", body: stream, duplex: "half" } as RequestInit;
}

describeServer("a request's body", ({ start }) => {
  const serve = () => start({ plugins: [bodies], bodyLimit: 20_000 });

  it.each([
    ["/parsed", 30_000, json],
    ["/unread", 30_000, {}],
    ["/own", 200, {}],
    ["/admin/session", 15_000, { ...form, accept: "application/json" }],
  ])("that is over the limit is refused before the handler acts: %s", async (path, size, headers) => {
    await using server = await serve();

    const streamed = await server.request(path, { ...chunked(size), headers });
    const known = await server.request(path, { method: "POST", body: "x".repeat(size), headers });

    expect([streamed.status, known.status]).toEqual([413, 413]);
    expect(await streamed.json()).toMatchObject({ error_type: "payload_too_large" });
  });

  it("is small on a route that everybody may call, unless the route says otherwise", async () => {
    await using server = await start({ plugins: [bodies] });
    const send = async (path: string, headers: Record<string, string>, body: string) =>
      (await server.request(path, { method: "POST", key: null, headers, body })).status;
    const text = "x".repeat(200_000);

    expect(await send("/answer", form, `token=wrong&message=${text}`)).toBe(413);
    expect(await send("/parsed", json, JSON.stringify({ text }))).toBe(413);
    expect(await send("/large", {}, text)).toBe(200);
    expect(await send("/answer", form, `token=wrong&message=${text.slice(0, 90_000)}`)).toBe(404);
  });

  it("is available to a handler that reads it itself", async () => {
    await using server = await serve();

    const response = await server.request("/own", { method: "POST", body: "h\u00fcllo" });

    expect(await response.json()).toEqual({ text: "h\u00fcllo" });
  });

  it.each(["gzip", "br", "made-up", "identity, gzip"])("is refused with the coding %s", async (coding) => {
    await using server = await serve();

    const response = await server.request("/parsed", {
      method: "POST",
      body: '{"text":"x"}',
      headers: { ...json, "content-encoding": coding },
    });

    expect(response.status).toBe(415);
    expect(await response.json()).toMatchObject({ error_type: "unsupported_media_type" });
  });

  it("may declare that it has no coding", async () => {
    await using server = await serve();

    const response = await server.request("/parsed", {
      method: "POST",
      body: '{"text":"x"}',
      headers: { ...json, "content-encoding": "identity" },
    });

    expect(response.status).toBe(200);
  });

  it.each([
    ["/parsed", json, Buffer.from('{"text":"M\xfcller"}', "latin1")],
    ["/admin/session", { ...form, accept: "application/json" }, Buffer.from("key=M\xfcller", "latin1")],
    ["/admin/session", { ...form, accept: "application/json" }, Buffer.from("key=M%FCller")],
  ])("that is not UTF-8 is refused, not changed: %s", async (path, headers, body) => {
    await using server = await serve();

    const response = await server.request(path, { method: "POST", body, headers });

    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: expect.stringContaining("UTF-8") });
  });

  it.each([
    ["iso-8859-1", 415],
    ['"windows-1252"', 415],
    ["utf-8", 200],
    ['"UTF-8"', 200],
  ])("with the charset %s gets %i", async (charset, status) => {
    await using server = await serve();

    const response = await server.request("/parsed", {
      method: "POST",
      body: '{"text":"x"}',
      headers: { "content-type": `application/json; charset=${charset}` },
    });

    expect(response.status).toBe(status);
  });
});

it("is limited for handlers that plugins add beside the routes, too", async () => {
  await using server = await testServer({ agents: [greeter], plugins: [bodies], bodyLimit: 20_000 });

  const response = await server.request("/raw", chunked(30_000));

  expect(response.status).toBe(413);
  expect(await response.json()).toMatchObject({ error_type: "payload_too_large" });
});

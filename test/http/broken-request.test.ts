import type { Server } from "node:http";
import { connect } from "node:net";
import { defineRoute, type Plugin, ROUTER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { greeter } from "../_setup.ts";

/** Sends text as it is and reads until the service closes the connection. */
function exchange(url: string, text: string): Promise<string> {
  const { port } = new URL(url);
  return new Promise((resolve, reject) => {
    let answer = "";
    const socket = connect(Number(port), "127.0.0.1", () => socket.write(text));
    socket.setEncoding("utf8").on("data", (part: string) => {
      answer += part;
    });
    socket.on("close", () => resolve(answer)).on("error", reject);
  });
}

it.each([
  ["no HTTP at all", "hello\r\n\r\n", 400],
  [
    "both a length and chunks",
    "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    400,
  ],
  ["headers without end", `GET / HTTP/1.1\r\nHost: x\r\nX-Long: ${"x".repeat(40_000)}\r\n\r\n`, 431],
])("an unreadable request gets the body of every failure: %s", async (_what, text, status) => {
  await using server = await testServer({ agents: [greeter] });

  const answer = await exchange(server.url, text);
  const [head = "", body = ""] = answer.split("\r\n\r\n");

  expect(head).toContain(`HTTP/1.1 ${status} `);
  expect(head).toContain("x-content-type-options: nosniff");
  expect(JSON.parse(body)).toMatchObject({ error_type: "invalid_request", status_code: status });
});

it("a response that has started is cut off, not mixed with an error", async () => {
  await using server = await testServer({ agents: [greeter] });
  const stream = `GET /admin/api/live HTTP/1.1\r\nHost: x\r\nX-API-Key: ${server.key}\r\n\r\n`;
  const { port } = new URL(server.url);

  const answer = await new Promise<string>((resolve) => {
    let text = "";
    const socket = connect(Number(port), "127.0.0.1", () => socket.write(stream));
    socket.setEncoding("utf8").on("data", (part: string) => {
      if (text === "") socket.write("no request\r\n\r\n");
      text += part;
    });
    socket.on("close", () => resolve(text)).on("error", () => resolve(text));
  });

  expect(answer).toContain("text/event-stream");
  expect(answer).not.toContain("invalid_request");
});

/** Returns how long the service waits for a request, in milliseconds. */
const patience: Plugin = {
  name: "patience",
  setup: ({ get }) =>
    get(ROUTER).add(
      defineRoute({
        method: "GET",
        path: "/patience",
        auth: "none",
        needs: "nothing",
        summary: "Time limits",
        tag: "Test",
        responses: { 200: { description: "Time limits" } },
        handler: ({ event }) => {
          const { server } = event.runtime!.node!.req.socket as unknown as { server: Server };
          return [server.headersTimeout, server.requestTimeout];
        },
      }),
    ),
};

it.each([
  [1_000_000, [15_000, 60_000]],
  [100_000_000, [15_000, 2_000_000]],
])(
  "a client that sends slowly is cut off: with a body limit of %i bytes after %j ms",
  async (bodyLimit, expected) => {
    await using server = await testServer({ agents: [greeter], plugins: [patience], bodyLimit });

    expect(await (await server.request("/patience")).json()).toEqual(expected);
  },
);

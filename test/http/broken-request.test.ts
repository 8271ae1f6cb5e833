import { connect } from "node:net";
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

import { request } from "node:http";
import { expect, it } from "vitest";
import { startControlServer } from "../../src/cli/control/control-server.ts";

function ask(url: string, path: string, host: string, method = "GET"): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const call = request(url + path, { method, headers: { host } }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    call.on("error", reject).end();
  });
}

it("the control system for development shows nothing to a page that resolved its own name to this machine", async () => {
  const options = { host: "127.0.0.1", port: 0, workspace: "w", apiKey: "k", keep: 10 } as const;
  const server = await startControlServer({ ...options, order: { mode: "ok" } });
  const { port, host } = new URL(server.url);
  try {
    const paths = ["/", "/_control/received", "/_control/stream", "/_control/page.js"];
    for (const path of paths) {
      expect(await ask(server.url, path, "rebound.example")).toBe(403);
      expect(await ask(server.url, path, `rebound.example:${port}`)).toBe(403);
    }
    expect(await ask(server.url, "/_control/received", "rebound.example", "DELETE")).toBe(403);
    for (const own of [host, `localhost:${port}`, `[::1]:${port}`]) {
      expect(await ask(server.url, "/_control/received", own)).toBe(200);
    }
  } finally {
    await server.close();
  }
});

import type { IncomingMessage } from "node:http";
import { createServer as createHttp } from "node:http";
import { createServer as createHttps } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { connect } from "node:net";
import { onTestFinished } from "vitest";
import { createSelfSigned } from "../../src/cli/dev/self-signed.ts";

/** A proxy on this machine that leads every host to one server, or refuses. */
export interface TestProxy {
  readonly address: string;
  /** What was asked of it: the target, and the login that came along. */
  readonly asked: { readonly target: string; readonly login: string | undefined }[];
}

export async function testProxy(
  answer: { readonly port: number } | { readonly status: number },
): Promise<TestProxy> {
  const asked: TestProxy["asked"] = [];
  const open = new Set<Socket>();
  const server = createHttp();
  server.on("connect", (request: IncomingMessage, socket: Socket) => {
    asked.push({ target: request.url ?? "", login: request.headers["proxy-authorization"] });
    open.add(socket);
    socket.on("error", () => undefined);
    if ("status" in answer) return void socket.end(`HTTP/1.1 ${answer.status} No\r\n\r\n`);
    const onward = connect(answer.port, "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
      onward.pipe(socket).pipe(onward);
    });
    open.add(onward);
    onward.on("error", () => socket.destroy());
  });
  const port = await listen(server);
  onTestFinished(() => {
    for (const socket of open) socket.destroy();
    server.close();
  });
  return { address: `http://127.0.0.1:${port}`, asked };
}

/** An https server that tells what it was asked, with a certificate of its own making that is trusted while the test runs. */
export async function testHttps(): Promise<{ readonly port: number }> {
  const { key, cert } = createSelfSigned(["service.example"], { days: 1 });
  const server = createHttps({ key, cert }, (request, response) => {
    let body = "";
    request.on("data", (chunk) => {
      body += chunk;
    });
    request.on("end", () => {
      const { method, url, headers } = request;
      response.writeHead(200, { "content-type": "application/json", "x-own": "yes" });
      response.end(JSON.stringify({ method, url, host: headers.host, body }));
    });
  });
  const port = await listen(server);
  const before = process.env.NODE_TLS_REJECT_UNAUTHORIZED;
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
  onTestFinished(() => {
    if (before === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    else process.env.NODE_TLS_REJECT_UNAUTHORIZED = before;
    server.closeAllConnections();
    server.close();
  });
  return { port };
}

function listen(server: ReturnType<typeof createHttp> | ReturnType<typeof createHttps>): Promise<number> {
  return new Promise((resolve) =>
    server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port)),
  );
}

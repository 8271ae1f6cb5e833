import type { IncomingMessage, Server } from "node:http";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

/** A request, read whole. */
export interface Received {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string>>;
  readonly raw: Buffer;
}

/** An answer; a plain object is sent as JSON, a stream as it comes. */
export interface Answer {
  readonly status: number;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface RunningServer {
  readonly url: string;
  readonly port: number;
  close(): Promise<void>;
}

/** Serves on a free port of 127.0.0.1. A handler that resolves with nothing cuts the connection. */
export async function serveHttp(
  handle: (request: Received) => Promise<Answer | undefined>,
): Promise<RunningServer> {
  const server: Server = createServer((request, response) => {
    void read(request)
      .then(handle)
      .then((answer) => {
        if (answer === undefined) return void request.socket.destroy();
        const raw = typeof answer.body === "string" || Buffer.isBuffer(answer.body);
        response.writeHead(answer.status, {
          "content-type": "application/json; charset=UTF-8",
          ...answer.headers,
        });
        if (answer.body instanceof ReadableStream)
          return pipeline(Readable.fromWeb(answer.body as never), response).catch(() => undefined);
        response.end(answer.body === undefined ? "" : raw ? answer.body : JSON.stringify(answer.body));
      })
      .catch((error: unknown) => {
        response.writeHead(500, { "content-type": "text/plain" });
        response.end(`emulator fault: ${error instanceof Error ? error.stack : String(error)}`);
      });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function read(request: IncomingMessage): Promise<Received> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const url = new URL(request.url ?? "/", "http://emulator");
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(request.headers)) headers[name] = String(value);
  return {
    method: request.method ?? "GET",
    // Kept as it was sent: an escaped slash is part of a name.
    path: url.pathname,
    query: url.searchParams,
    headers,
    raw: Buffer.concat(chunks),
  };
}

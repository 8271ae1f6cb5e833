import type { Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { setTimeout as delay, setImmediate as immediate } from "node:timers/promises";
import { serve } from "srvx";
import { PassingMap } from "../base/passing-map.ts";
import { answerBroken } from "./broken-request.ts";
import { cutOffUnread } from "./unread-body.ts";

/** A listening server. */
export interface HttpServer {
  /** The actual port. */
  readonly port: number;
  /** @default "http" */
  readonly protocol?: "http" | "https";
  /**
   * Stops accepting, waits for open requests; `force` aborts them. For `linger` milliseconds before, requests are still
   * answered, and their connections closed: a proxy may send some until it knows. Connections that were accepted by then
   * have as long again for their first request. @default linger 0
   */
  close(force?: boolean, linger?: number): Promise<void>;
}

/** A certificate and its private key, PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

/** Makes what answers requests listen; rejects if the address is in use. */
export type Serve = (
  app: { readonly fetch: (request: Request) => Response | Promise<Response> },
  options: {
    readonly host: string;
    readonly port: number;
    /** Largest request body, bytes: holds for handlers that plugins put beside the routes, too. */
    readonly bodyLimit: number;
  },
) => Promise<HttpServer>;

/** Milliseconds between checks for idle connections while the server closes. */
const SWEEP = 20;
/** Milliseconds in which a request's headers must arrive. */
const HEADERS_TIMEOUT = 15_000;
/**
 * Milliseconds in which a whole request must arrive, and the minimum bytes per millisecond for larger bodies.
 */
const REQUEST_TIMEOUT = 60_000;
const SLOWEST = 50;

/** What only a caller of `serveWithNode` passes. */
export interface NodeServeOptions {
  /** Serves https. */
  readonly tls?: Certificate;
  /** Milliseconds that open requests get when the server closes. @default until they have ended */
  readonly patience?: number;
}

/** Listens with Node's own server. Signals are left to the caller. */
export async function serveWithNode(
  app: Parameters<Serve>[0],
  { host, port, bodyLimit, tls, patience }: Parameters<Serve>[1] & NodeServeOptions,
): Promise<HttpServer> {
  const server = serve({
    fetch: app.fetch,
    hostname: host,
    port,
    silent: true,
    gracefulShutdown: false,
    maxRequestBodySize: bodyLimit,
    ...(tls && { tls }),
    node: {
      http2: false,
      // Processes that are run together take turns at one port.
      exclusive: false,
      headersTimeout: HEADERS_TIMEOUT,
      requestTimeout: Math.max(REQUEST_TIMEOUT, bodyLimit / SLOWEST),
    },
  });
  const node = server.node?.server as Server;
  node.on("clientError", answerBroken);
  node.on("request", cutOffUnread);
  const sockets = new Set<Socket>();
  node.on("connection", (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  let isClosing = false;
  const open = new PassingMap<number, ServerResponse>();
  let count = 0;
  // Before the handler, which may respond immediately.
  node.prependListener("request", (_, response) => {
    if (isClosing) response.shouldKeepAlive = false;
    const number = count++;
    open.set(number, response);
    response.once("close", () => open.delete(number));
  });
  await server.ready();
  const address = node.address();

  return {
    port: typeof address === "object" && address ? address.port : port,
    async close(force, linger = 0) {
      isClosing = true;
      for (const response of open.values()) response.shouldKeepAlive = false;
      if (!force && linger > 0) {
        await delay(linger);
        // Those that have connected by now are accepted first.
        await immediate();
      }
      const closed = server.close(force);
      const since = performance.now();
      // Node closes connections that are idle at this moment. Those with a response in progress would stay
      // for their keep-alive time after it, and those that browsers open ahead of any request even longer.
      const sweep = setInterval(() => {
        node.closeIdleConnections();
        // The request of a connection that was just accepted may be on its way.
        if (!force && performance.now() - since < linger) return;
        for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
      }, SWEEP);
      const cut = patience !== undefined && setTimeout(() => node.closeAllConnections(), patience);
      try {
        await closed;
      } finally {
        if (cut) clearTimeout(cut);
        clearInterval(sweep);
      }
    },
  };
}

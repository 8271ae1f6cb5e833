import type { Server } from "node:http";
import type { Socket } from "node:net";
import { type H3, serve } from "h3";

/** A listening server. */
export interface HttpServer {
  /** The port that it got. */
  readonly port: number;
  /** Accepts no more, waits for requests under way; `force` cuts them off. */
  close(force?: boolean): Promise<void>;
}

/** Makes an app listen; rejects where the address is taken. */
export type Serve = (app: H3, at: { readonly host: string; readonly port: number }) => Promise<HttpServer>;

/** Milliseconds between two looks for connections that have become idle while the server closes. */
const SWEEP = 20;

/** Listens with Node's own server. Signals stay with the caller. */
export const serveWithNode: Serve = async (app, { host, port }) => {
  const server = serve(app, { hostname: host, port, silent: true, gracefulShutdown: false });
  const node = server.node?.server as Server;
  const sockets = new Set<Socket>();
  node.on("connection", (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  await server.ready();
  const address = node.address();

  return {
    port: typeof address === "object" && address ? address.port : port,
    async close(force) {
      const closed = server.close(force);
      // Node lets go of connections that are idle at this moment. Those whose answer is under way would stay for
      // their keep-alive time after it, and those that browsers open ahead of any request even longer.
      const sweep = setInterval(() => {
        node.closeIdleConnections();
        for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
      }, SWEEP);
      try {
        await closed;
      } finally {
        clearInterval(sweep);
      }
    },
  };
};

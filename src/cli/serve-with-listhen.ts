import type { RequestListener } from "node:http";
import { listen } from "listhen";
import { toNodeHandler } from "srvx/node";
import type { Serve } from "../core/http/serve.ts";

/** Milliseconds that open requests get while a developer waits for the restart. */
const PATIENCE = 1000;

/**
 * Listens with listhen, with its automatic behavior turned off: another port if this one is in use, all
 * addresses if the host is unknown, a QR code, the clipboard, its own signal handling.
 */
export const serveWithListhen: Serve = async (app, { host, port }) => {
  const listener = await listen(toNodeHandler(app.fetch) as RequestListener, {
    hostname: host,
    port: {
      port,
      ports: [],
      portRange: [port, port],
      alternativePortRange: [port, port],
      random: port === 0,
    },
    public: host === "0.0.0.0" || host === "::",
    autoClose: false,
    showURL: false,
    qr: false,
    clipboard: false,
    open: false,
    isTest: true,
  }).catch((cause: unknown) => {
    throw Object.assign(new Error("listhen did not find a free port", { cause }), { code: "EADDRINUSE" });
  });
  const address = listener.server.address();
  return {
    port: typeof address === "object" && address ? address.port : port,
    close: async (force) => {
      const closed = new Promise<void>((done) => listener.server.close(() => done()));
      const cut = setTimeout(() => listener.server.closeAllConnections(), force ? 0 : PATIENCE);
      await closed;
      clearTimeout(cut);
    },
  };
};

import type { RequestListener } from "node:http";
import { listen } from "listhen";
import { toNodeHandler } from "srvx/node";
import type { Serve } from "../core/http/serve.ts";

/** Milliseconds that requests get when a developer waits for the next start. */
const PATIENCE = 1000;

/**
 * Listens with listhen, with everything off that it would do by itself: another port where this one is taken,
 * all addresses where the host is not known, a QR code, the clipboard, an end of its own at signals.
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
    throw Object.assign(new Error("listhen found no port", { cause }), { code: "EADDRINUSE" });
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

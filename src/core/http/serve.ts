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

/** Listens with Node's own server. Signals stay with the caller. */
export const serveWithNode: Serve = async (app, { host, port }) => {
  const server = serve(app, { hostname: host, port, silent: true, gracefulShutdown: false });
  await server.ready();
  const address = server.node?.server?.address();
  return {
    port: typeof address === "object" && address ? address.port : port,
    close: (force) => server.close(force),
  };
};

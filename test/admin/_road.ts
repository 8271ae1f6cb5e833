import { createServer as createProxy, request } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { connect, createServer } from "node:net";

/** What can be wrong between a browser and a service; nothing is, in `open`. */
export type Fault = "dead" | "silent" | "failing";

/** The road between a browser and a service: proxies that can lose the connection in the ways that networks do. */
export interface Road extends AsyncDisposable {
  readonly url: string;
  /**
   * `open`: passes all on. `dead`: ends connections and refuses new ones. `silent`: keeps them, takes new ones, and
   * passes nothing on; none of these is heard again, also later. `failing`: answers each third request with 502.
   */
  become(state: "open" | Fault): void;
  /** Requests that were answered with 502. */
  readonly failed: number;
}

export async function openRoad(target: string): Promise<Road> {
  const { hostname, port: end } = new URL(target);
  let state: "open" | Fault = "open";
  let [seen, failed] = [0, 0];
  const proxy = createProxy((near, answer) => {
    if (state === "failing" && ++seen % 3 === 0) {
      failed++;
      return void answer.writeHead(502).end("Bad gateway");
    }
    const { method, url, headers } = near;
    const far = request({ hostname, port: end, method, path: url, headers }, (response) => {
      answer.writeHead(response.statusCode!, response.rawHeaders);
      response.pipe(answer).on("error", () => response.destroy());
      response.on("error", () => answer.destroy());
    });
    far.on("error", () => answer.destroy());
    answer.on("close", () => far.destroy());
    near.pipe(far);
  });
  const onward = await listen(proxy);

  const sockets = new Set<Socket>();
  const lost = new WeakSet<Socket>();
  const server = createServer((near) => {
    if (state === "dead") return void near.destroy();
    const far = connect(onward, "127.0.0.1");
    for (const socket of [near, far]) {
      sockets.add(socket);
      if (state === "silent") lost.add(socket);
      const to = socket === near ? far : near;
      socket.on("data", (bytes) => lost.has(socket) || to.write(bytes));
      socket.on("error", () => to.destroy());
      socket.on("close", () => {
        sockets.delete(socket);
        if (!lost.has(socket) || socket === near) to.destroy();
      });
    }
  });
  const port = await listen(server);
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: `http://127.0.0.1:${port}`,
    get failed() {
      return failed;
    },
    become(next) {
      state = next;
      if (next === "dead") cut();
      if (next === "silent") for (const socket of sockets) lost.add(socket);
    },
    async [Symbol.asyncDispose]() {
      cut();
      proxy.closeAllConnections();
      await Promise.all([server, proxy].map((one) => new Promise((resolve) => one.close(resolve))));
    },
  };
}

async function listen(server: ReturnType<typeof createServer>): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

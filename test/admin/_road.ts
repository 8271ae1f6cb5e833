import type { AddressInfo, Socket } from "node:net";
import { connect, createServer } from "node:net";

/** The road between a browser and a service: a TCP proxy that can lose the connection in the ways that networks do. */
export interface Road extends AsyncDisposable {
  readonly url: string;
  /** `open`: passes all bytes on. `dead`: ends connections and refuses new ones. `silent`: keeps them, and passes nothing on. */
  become(state: "open" | "dead" | "silent"): void;
}

export async function openRoad(target: string): Promise<Road> {
  const { port: onward } = new URL(target);
  const sockets = new Set<Socket>();
  let state: "open" | "dead" | "silent" = "open";
  const server = createServer((near) => {
    if (state === "dead") return void near.destroy();
    const far = connect(Number(onward), "127.0.0.1");
    const ends: [Socket, Socket][] = [
      [near, far],
      [far, near],
    ];
    for (const [from, to] of ends) {
      sockets.add(from);
      from.on("data", (bytes) => state === "silent" || to.write(bytes));
      from.on("error", () => to.destroy());
      from.on("close", () => {
        sockets.delete(from);
        if (state !== "silent") to.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    become(next) {
      // What a silent road has swallowed never comes.
      if (next !== "silent" && state !== "open") cut();
      if (next === "dead") cut();
      state = next;
    },
    async [Symbol.asyncDispose]() {
      cut();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

import { createConnection, createServer, type Server, type Socket } from "node:net";

/** A connection to the database that can be cut: one for each instance. */
export class Relay {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** `silent` keeps connections open and lets nothing through, as a lost network does. */
  #state: "open" | "silent" | "closed" = "open";

  private constructor(to: { readonly host: string; readonly port: number }) {
    this.#server = createServer((near) => {
      if (this.#state === "closed") {
        near.destroy();
        return;
      }
      const far = createConnection(to);
      for (const [from, into] of [
        [near, far],
        [far, near],
      ] as const) {
        this.#sockets.add(from);
        if (this.#state === "open") from.pipe(into);
        from.on("error", () => into.destroy());
        from.on("close", () => {
          this.#sockets.delete(from);
          into.destroy();
        });
      }
    });
  }

  static async listen(to: { readonly host: string; readonly port: number }): Promise<Relay> {
    const relay = new Relay(to);
    await new Promise<void>((resolve, reject) => {
      relay.#server.once("error", reject).listen(0, "127.0.0.1", () => resolve());
    });
    return relay;
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port;
  }

  /** Cuts the network: with an end to all connections, or so that nothing is heard any longer. */
  cut(how: "silent" | "closed"): void {
    this.#state = how;
    for (const socket of this.#sockets) {
      if (how === "closed") socket.destroy();
      else socket.unpipe().pause();
    }
  }

  /** Lets connections through again. Those that were silent end: what they had under way is lost. */
  restore(): void {
    this.#state = "open";
    for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    this.cut("closed");
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }
}

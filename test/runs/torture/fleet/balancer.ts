import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";

/** Milliseconds without an answer after which an instance that is struck is taken to be unavailable. */
const PATIENCE = 3000;
/** The same for one that nothing is being done to: on a busy machine it is slow, not wrong. */
const LONGEST_ANSWER = 300_000;
/** Milliseconds for which it gets no requests then, as long as there are others. */
const REST = 15_000;

/** An instance that may get requests. */
export interface Backend {
  readonly url: string;
  /** Whether something is being done to it now. */
  isStruck(): boolean;
}

/** A proxy before several instances: each request goes to the next one that accepts it. */
export class Balancer {
  readonly #server: Server;
  readonly #targets: () => readonly Backend[];
  #next = 0;
  /** Instances that did not answer, and until when they get no requests, by a clock that nobody sets. */
  readonly #resting = new Map<string, number>();
  /** Requests that no instance has answered. */
  failed = 0;

  private constructor(targets: () => readonly Backend[]) {
    this.#targets = targets;
    this.#server = createServer((incoming, outgoing) => void this.#serve(incoming, outgoing));
  }

  /** `targets` are the instances that may get requests now. */
  static async listen(targets: () => readonly Backend[]): Promise<Balancer> {
    const balancer = new Balancer(targets);
    await new Promise<void>((resolve, reject) => {
      balancer.#server.once("error", reject).listen(0, "127.0.0.1", () => resolve());
    });
    return balancer;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as { port: number }).port}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  async #serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const body: Buffer[] = [];
    try {
      for await (const part of incoming) body.push(part as Buffer);
    } catch {
      outgoing.destroy();
      return;
    }
    for (const target of this.#inTurn()) {
      const result = await forward(target, incoming, Buffer.concat(body), outgoing);
      if (result === "answered") return;
      if (result === "silent") this.#resting.set(target.url, performance.now() + REST);
      // It may have been done: only what can be repeated is.
      if (result !== "refused" && incoming.method !== "GET") break;
    }
    this.failed++;
    // As the crash of a service without a proxy looks like.
    outgoing.destroy();
  }

  /** The instances in turn; those that did not answer come last. */
  #inTurn(): Backend[] {
    const all = this.#targets();
    const first = this.#next++;
    const turn = all.map((_, n) => all[(first + n) % all.length]!);
    const isResting = ({ url }: Backend) => (this.#resting.get(url) ?? 0) > performance.now();
    return [...turn.filter((one) => !isResting(one)), ...turn.filter(isResting)];
  }
}

function forward(
  target: Backend,
  { method, url, headers }: IncomingMessage,
  body: Buffer,
  outgoing: ServerResponse,
): Promise<"answered" | "refused" | "broken" | "silent"> {
  return new Promise((resolve) => {
    let isConnected = false;
    let isSilent = false;
    const sent = request(new URL(url!, target.url), { method, headers, agent: false }, (answer) => {
      clearInterval(timer);
      outgoing.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(outgoing);
      answer.on("error", () => outgoing.destroy());
      answer.on("aborted", () => outgoing.destroy());
      outgoing.on("close", () => answer.destroy());
      resolve("answered");
    });
    const sentAt = performance.now();
    const timer = setInterval(() => {
      isSilent = target.isStruck() || performance.now() - sentAt > LONGEST_ANSWER;
      if (isSilent) sent.destroy(new Error("no answer"));
    }, PATIENCE);
    sent.on("socket", (socket) => {
      socket.once("connect", () => {
        isConnected = true;
      });
    });
    sent.on("error", () => {
      clearInterval(timer);
      if (outgoing.headersSent) outgoing.destroy();
      else resolve(isSilent ? "silent" : isConnected ? "broken" : "refused");
    });
    sent.end(body);
  });
}

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, isIP } from "node:net";
import * as v from "valibot";
import { isLoopback } from "../../core/base/loopback.ts";
import { Behaviour, type Order, OrderSchema } from "./behaviour.ts";
import { Inbox, type Received } from "./inbox.ts";
import { CONTROL_PAGE, CONTROL_SCRIPT } from "./page.ts";
import { verifyEvent, verifyTelemetry, verifyWebhook } from "./verify.ts";

/** More than any event; a service that sends more than this is broken. */
const BODY_LIMIT = 16 * 1024 * 1024;
const SLOW = 2000;

export interface ControlServerOptions {
  readonly host: string;
  readonly port: number;
  readonly workspace: string;
  readonly apiKey: string;
  /** Secret that webhooks must be signed with. */
  readonly webhookSecret?: string;
  readonly order: Order;
  readonly keep: number;
  readonly onReceived?: (item: Received) => void;
}

export interface ControlServer {
  readonly url: string;
  readonly inbox: Inbox;
  close(): Promise<void>;
}

/** A development control system: receives events and telemetry, validates them, and fails on request. */
export async function startControlServer(options: ControlServerOptions): Promise<ControlServer> {
  const inbox = new Inbox(options.keep);
  if (options.onReceived) inbox.listen(options.onReceived);
  const desk = new ControlDesk(options, inbox);
  const server = createServer((request, response) => {
    desk.answer(request, response).catch((error: unknown) => {
      if (!response.headersSent) send(response, 500, { error: String(error) });
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port, options.host, resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${options.host.includes(":") ? `[${options.host}]` : options.host}:${port}`,
    inbox,
    close: async () => {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

class ControlDesk {
  readonly #options: ControlServerOptions;
  readonly #inbox: Inbox;
  readonly #behaviour: Behaviour;
  /** Settings that it serves for agents, by slug. */
  readonly #agents = new Map<string, unknown>();

  constructor(options: ControlServerOptions, inbox: Inbox) {
    this.#options = options;
    this.#inbox = inbox;
    this.#behaviour = new Behaviour(options.order);
  }

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://localhost");
    const workspace = `/w/${encodeURIComponent(this.#options.workspace)}/api/v1`;
    if (pathname.startsWith("/_control/") || request.method === "GET") {
      const slug = pathname.startsWith(`${workspace}/agents/by-slug/`) && pathname.split("/").at(-1);
      if (slug) return this.#answerAgent(request, response, slug);
      if (!this.#isOwnHost(request.headers.host)) {
        return send(response, 403, { error: "Open this page by IP address, such as http://127.0.0.1" });
      }
      return this.#steer(request, response, pathname, searchParams);
    }
    const text = await readText(request);
    if (pathname === `${workspace}/ctrl-events/`) return this.#receive("event", text, request, response);
    if (pathname === "/v1/telemetry") return this.#receive("telemetry", text, request, response);
    if (pathname === "/webhooks") return this.#receive("webhook", text, request, response);
    send(response, 404, { error: "Not found" });
  }

  /**
   * A page of another site can make its own host name resolve to this machine (DNS rebinding), but not an
   * address or `localhost`.
   */
  #isOwnHost(host: string | undefined): boolean {
    const url = `http://${host}`;
    if (!URL.canParse(url)) return false;
    const { hostname } = new URL(url);
    return (
      isLoopback(hostname) || isIP(hostname.replace(/^\[|\]$/g, "")) > 0 || hostname === this.#options.host
    );
  }

  async #receive(
    kind: Received["kind"],
    text: string,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const order = this.#behaviour.next(text);
    if (order.mode === "hang") return;
    if (order.mode === "reset") return void request.socket.resetAndDestroy();
    if (order.mode === "slow") await new Promise((resolve) => setTimeout(resolve, SLOW));
    if (/^\d+$/.test(order.mode)) {
      const headers: Record<string, string> = {};
      if (order.retry_after !== undefined) headers["retry-after"] = String(order.retry_after);
      return send(response, Number(order.mode), { error: `set to answer ${order.mode}` }, headers);
    }
    if (kind !== "webhook" && request.headers.authorization !== `Api-Key ${this.#options.apiKey}`) {
      return send(response, 401, { error: "The API key is missing or wrong" });
    }
    const received = this.#inbox.add({
      kind,
      key: single(request.headers["idempotency-key"]) ?? single(request.headers["webhook-id"]) ?? null,
      headers: shownHeaders(request),
      ...this.#check(kind, text, request),
    });
    if (order.mode === "cut") {
      response.writeHead(200, { "content-length": "100" });
      response.write("{");
      return void setTimeout(() => request.socket.resetAndDestroy(), 5);
    }
    if (received.problems.length > 0) return send(response, 422, { error: received.problems.join("; ") });
    send(response, 201, { id: received.n });
  }

  #check(kind: Received["kind"], text: string, request: IncomingMessage) {
    let body: unknown;
    try {
      body = JSON.parse(text);
    } catch {
      return { body: text, problems: ["the body is not JSON"] };
    }
    const { headers } = request;
    const problems: string[] = [];
    if (kind === "event") {
      problems.push(...verifyEvent(body, this.#options.workspace));
      if (headers.workspace !== this.#options.workspace)
        problems.push("header workspace is missing or wrong");
      if (!headers["idempotency-key"]) problems.push("header idempotency-key is missing");
    }
    if (kind === "telemetry") problems.push(...verifyTelemetry(body));
    if (kind === "webhook" && this.#options.webhookSecret !== undefined) {
      const given = shownHeaders(request);
      problems.push(...verifyWebhook(given, text, this.#options.webhookSecret, Date.now()));
    }
    return { body, problems };
  }

  async #steer(
    request: IncomingMessage,
    response: ServerResponse,
    pathname: string,
    query: URLSearchParams,
  ): Promise<void> {
    const call = `${request.method} ${pathname}`;
    if (call === "GET /") return sendText(response, "text/html; charset=utf-8", CONTROL_PAGE);
    if (call === "GET /_control/page.js") return sendText(response, "text/javascript", CONTROL_SCRIPT);
    if (call === "GET /_control/received") {
      const items = this.#inbox.after(Number(query.get("after") ?? 0), Number(query.get("limit") ?? 1000));
      return send(response, 200, { items, count: this.#inbox.count, mode: this.#behaviour.order });
    }
    if (call === "DELETE /_control/received") {
      this.#inbox.clear();
      return send(response, 200, {});
    }
    if (call === "GET /_control/stream") return this.#stream(request, response);
    if (call === "POST /_control/mode") {
      if (!isJson(request)) return send(response, 415, { error: "Send application/json" });
      const order = v.safeParse(OrderSchema, JSON.parse(await readText(request)));
      if (!order.success) return send(response, 422, { error: order.issues[0].message });
      this.#behaviour.obey(order.output);
      return send(response, 200, order.output);
    }
    if (request.method === "PUT" && pathname.startsWith("/_control/agents/")) {
      if (!isJson(request)) return send(response, 415, { error: "Send application/json" });
      this.#agents.set(pathname.split("/").at(-1) as string, JSON.parse(await readText(request)));
      return send(response, 200, {});
    }
    send(response, 404, { error: "Not found" });
  }

  #answerAgent(request: IncomingMessage, response: ServerResponse, slug: string): void {
    const allowed = request.headers.authorization === `Api-Key ${this.#options.apiKey}`;
    const agent = this.#agents.get(slug);
    if (!allowed) send(response, 401, { error: "The API key is missing or wrong" });
    else if (!agent) send(response, 404, { error: `No settings for agent ${slug}` });
    else send(response, 200, agent);
  }

  #stream(request: IncomingMessage, response: ServerResponse): void {
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
    const write = (item: Received) => response.write(`id: ${item.n}\ndata: ${JSON.stringify(item)}\n\n`);
    const after = Number(single(request.headers["last-event-id"]) ?? 0);
    for (const item of this.#inbox.after(after, 1000)) write(item);
    const stop = this.#inbox.listen(write);
    request.on("close", stop);
  }
}

async function readText(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > BODY_LIMIT) throw new Error("the body is too large");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** Headers for the page and the tests, without the key. */
function shownHeaders(request: IncomingMessage): Record<string, string> {
  const entries = Object.entries(request.headers).filter(([name]) => name !== "authorization");
  return Object.fromEntries(entries.map(([name, value]) => [name, single(value) ?? ""]));
}

function single(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(", ") : value;
}

/** A page of another origin cannot send this content type without a preflight request. */
function isJson(request: IncomingMessage): boolean {
  return request.headers["content-type"]?.startsWith("application/json") ?? false;
}

function send(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}

function sendText(response: ServerResponse, type: string, text: string): void {
  response
    .writeHead(200, {
      "content-type": type,
      "content-security-policy":
        "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'",
      "x-content-type-options": "nosniff",
    })
    .end(text);
}

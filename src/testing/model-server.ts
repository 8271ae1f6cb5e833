import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { messageOf } from "../core/base/error-text.ts";
import { type NamesOf, refuseUnknown } from "../core/base/refuse-unknown.ts";
import { chatAnswer, chatChunks } from "./model-server/chat.ts";
import type { ModelServerRequest } from "./model-server/messages.ts";
import { readRequest } from "./model-server/read-request.ts";
import { responsesAnswer, responsesEvents } from "./model-server/responses.ts";

/** What the model answers: text, tools that it asks for, or an error. */
export type ModelReply =
  | string
  | {
      readonly text?: string;
      readonly toolCalls?: readonly { readonly name: string; readonly arguments: unknown }[];
    }
  | { readonly error: { readonly status: number; readonly message: string; readonly retryAfter?: number } };

export interface ModelServerOptions {
  /** What it answers. @default the tools that the last message names, then their results; otherwise an echo */
  readonly reply?: (request: ModelServerRequest) => ModelReply;
  /** @default 0: any free port */
  readonly port?: number;
  /** Milliseconds between two words of a streamed answer. @default 0 */
  readonly pace?: number;
}

const NAMES: NamesOf<ModelServerOptions> = { reply: true, port: true, pace: true };

/** A model on this machine, for tests and for examples that run without a key. */
export interface ModelServer extends AsyncDisposable {
  /** The base URL of its API, such as `http://127.0.0.1:4000/v1`. */
  readonly url: string;
  /** Answers that a provider would have charged, in order. */
  readonly paid: readonly ModelServerRequest[];
  /** Requests with a known `Idempotency-Key`: they got the first answer again, which a provider does not charge twice. */
  readonly repeated: readonly ModelServerRequest[];
  /** Requests that were charged more than once: the same conversation, under another key or without one. */
  readonly paidTwice: readonly ModelServerRequest[];
  close(): Promise<void>;
}

type Api = "chat" | "responses";

/**
 * Serves `/v1/chat/completions` and `/v1/responses` on 127.0.0.1 as OpenAI does, streaming too. Its answers depend on the
 * request only, and it counts who would have to pay.
 *
 * @example
 * await using model = await modelServer({ reply: ({ last }) => `You wrote: ${last.text}` });
 */
export async function modelServer(options: ModelServerOptions = {}): Promise<ModelServer> {
  refuseUnknown(options, NAMES, "modelServer");
  const { reply = standIn, port = 0, pace = 0 } = options;
  const paid: ModelServerRequest[] = [];
  const repeated: ModelServerRequest[] = [];
  const paidTwice: ModelServerRequest[] = [];
  const replies = new Map<string, ModelReply>();
  const digests = new Set<string>();

  const answer = (request: ModelServerRequest): ModelReply => {
    const { idempotencyKey, body } = request;
    const known = idempotencyKey === undefined ? undefined : replies.get(idempotencyKey);
    if (known !== undefined) {
      repeated.push(request);
      return known;
    }
    const made = reply(request);
    if (typeof made === "object" && "error" in made) return made;
    paid.push(request);
    const digest = digestOf({ messages: request.messages, tools: request.tools, model: body.model });
    if (digests.has(digest)) paidTwice.push(request);
    digests.add(digest);
    if (idempotencyKey !== undefined) replies.set(idempotencyKey, made);
    return made;
  };

  const server = createServer((incoming, outgoing) => {
    handle(incoming, outgoing, answer, pace).catch((error: unknown) => {
      if (outgoing.headersSent) outgoing.destroy();
      else sendError(outgoing, 500, messageOf(error));
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(port, "127.0.0.1", resolve);
  });
  const close = async () => {
    server.closeAllConnections();
    await new Promise<void>((resolve) => void server.close(() => resolve()));
  };
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  return { url, paid, repeated, paidTwice, close, [Symbol.asyncDispose]: close };
}

async function handle(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  answer: (request: ModelServerRequest) => ModelReply,
  pace: number,
): Promise<void> {
  const api = apiOf(incoming.url ?? "");
  if (incoming.method === "GET" && incoming.url === "/v1/models") {
    send(outgoing, { object: "list", data: [{ id: "stand-in", object: "model", owned_by: "this machine" }] });
    return;
  }
  if (incoming.method !== "POST" || !api) {
    sendError(outgoing, 404, `There is no ${incoming.method} ${incoming.url}`);
    return;
  }
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  const body = JSON.parse(Buffer.concat(chunks).toString("utf8")) as Record<string, unknown>;
  const key = incoming.headers["idempotency-key"];
  const request = readRequest(body, typeof key === "string" ? key : undefined);
  const reply = answer(request);
  if (typeof reply === "object" && "error" in reply) {
    const { status, message, retryAfter } = reply.error;
    if (retryAfter !== undefined) outgoing.setHeader("retry-after", String(retryAfter));
    sendError(outgoing, status, message);
    return;
  }
  const whole = typeof reply === "string" ? { text: reply } : reply;
  const parts = { request, ...whole, id: digestOf(body).slice(0, 12) };
  if (body.stream !== true) {
    send(outgoing, api === "chat" ? chatAnswer(parts) : responsesAnswer(parts));
    return;
  }
  outgoing.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  for (const event of api === "chat" ? chatChunks(parts) : responsesEvents(parts)) {
    if (outgoing.destroyed) return;
    outgoing.write(event);
    if (pace > 0) await new Promise((resolve) => setTimeout(resolve, pace));
  }
  outgoing.end();
}

function apiOf(url: string): Api | undefined {
  if (url === "/v1/chat/completions") return "chat";
  return url === "/v1/responses" ? "responses" : undefined;
}

/** Asks for the tools that the user names, then says what they gave; without tools, an echo. */
function standIn({ last, tools, messages }: ModelServerRequest): ModelReply {
  if (last.role === "tool") {
    const from = messages.findLastIndex(({ toolCalls }) => toolCalls.length > 0);
    const results = messages.slice(from + 1).map(({ text }) => text);
    return `(stand-in) The tools gave: ${results.join("; ")}`;
  }
  const named = tools.filter((name) => last.text.toLowerCase().includes(name.toLowerCase()));
  if (named.length > 0) return { toolCalls: named.map((name) => ({ name, arguments: {} })) };
  return `(stand-in) You wrote: ${last.text}`;
}

function send(outgoing: ServerResponse, body: unknown): void {
  outgoing.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
}

function sendError(outgoing: ServerResponse, status: number, message: string): void {
  outgoing
    .writeHead(status, { "content-type": "application/json" })
    .end(JSON.stringify({ error: { message, type: "error", code: status } }));
}

function digestOf(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("hex");
}

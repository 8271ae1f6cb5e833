import { randomUUID } from "node:crypto";
import type { Caller } from "../../core/audit/caller.ts";

const SESSION = "mcp-session-id";

interface Message {
  readonly method?: unknown;
  readonly id?: unknown;
  readonly params?: { readonly requestId?: unknown; readonly _meta?: { readonly progressToken?: unknown } };
}

interface Served {
  readonly response: Response;
  /** Ends what served it. */
  close(): Promise<void>;
}

/**
 * The calls under way of clients of revisions before 2026-07-28, which cancel one by a message of its own. A session has no
 * state: its id only says which client a message is of, so that it cancels no call of another one.
 */
export class LegacyCalls {
  readonly #open = new Map<string, AbortController>();

  /** Answers a request; `serve` gets what fires when it is cancelled, and whether the client reads a stream. */
  async answer(
    request: Request,
    { message, caller }: { readonly message: Message; readonly caller: Caller },
    serve: (cancelled: AbortSignal, streams: boolean) => Promise<Served>,
  ): Promise<Response> {
    const session = request.headers.get(SESSION) ?? undefined;
    const nameOf = (id: unknown) => JSON.stringify([caller.access ?? caller.kind, session, id]);
    if (message.method === "notifications/cancelled" && session !== undefined)
      this.#open.get(nameOf(message.params?.requestId))?.abort();
    const controller = new AbortController();
    const name = nameOf(message.id);
    const isCall = message.method === "tools/call" && session !== undefined;
    if (isCall) this.#open.set(name, controller);
    const streams = isCall && message.params?._meta?.progressToken !== undefined;
    const forget = (): void => {
      if (this.#open.get(name) === controller) this.#open.delete(name);
    };
    const { response, close } = await serve(controller.signal, streams).catch((error: unknown) => {
      forget();
      throw error;
    });
    const end = (): Promise<void> => {
      forget();
      return close();
    };
    if (message.method === "initialize" && response.ok) response.headers.set(SESSION, randomUUID());
    if (response.body && response.headers.get("content-type")?.startsWith("text/event-stream"))
      return new Response(untilRead(response.body, end), response);
    await end();
    return response;
  }
}

/** The same stream; `end` is called once it is read or left. */
function untilRead(body: ReadableStream<Uint8Array>, end: () => Promise<void>): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await reader.read();
      if (!done) return controller.enqueue(value);
      controller.close();
      await end();
    },
    async cancel(reason) {
      await reader.cancel(reason);
      await end();
    },
  });
}

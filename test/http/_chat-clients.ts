import { HttpAgent } from "@ag-ui/client";
import OpenAI from "openai";
import { main } from "../../src/cli/main.ts";
import { connect, messageOf, send, shown } from "../a2a/_client.ts";
import { connectPlain } from "../mcp/_client.ts";
import { uiChat } from "./_ui-chat.ts";

interface Address {
  readonly url: string;
  readonly key: string;
}

/**
 * Says something in a thread of the agent `asker`, with an id; gives the first line of the answer, or of what the agent asks.
 * Rejects with what the client shows of a failure. The signal takes the client's connection away.
 */
export type Say = (thread: string, content: string, id: string, signal?: AbortSignal) => Promise<string>;

const firstLine = (text: string | null | undefined): string => (text ?? "").split("\n", 1)[0]!;
const openai = ({ url, key: apiKey }: Address) => new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
const optionsOf = (id: string, signal?: AbortSignal) => ({
  headers: { "Idempotency-Key": id },
  ...(signal && { signal }),
});

/** The client of AG-UI leaves the loss of its connection unhandled: for it, the run ends with an error. */
async function fetchToTheEnd(input: string, init?: RequestInit): Promise<Response> {
  const lost = new TextEncoder().encode(
    `data: ${JSON.stringify({ type: "RUN_ERROR", message: "The connection was lost" })}\n\n`,
  );
  const response = await fetch(input, init).catch(
    () => new Response(lost, { headers: { "content-type": "text/event-stream" } }),
  );
  const reader = response.body!.getReader();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { value, done } = await reader.read().catch(() => ({ value: lost, done: true }));
      if (value) controller.enqueue(value);
      if (done) controller.close();
    },
    cancel: (reason) => reader.cancel(reason),
  });
  return new Response(body, response);
}

/** The official clients of the protocols that chat agents speak. */
export const CHAT_CLIENTS: Readonly<Record<string, (address: Address) => Say>> = {
  OpenAI: (address) => async (thread_id, content, id, signal) => {
    const messages = [{ role: "user" as const, content }];
    const request = { model: "asker", messages, metadata: { thread_id } };
    const { choices } = await openai(address).chat.completions.create(request, optionsOf(id, signal));
    return firstLine(choices[0]!.message.content);
  },
  "OpenAI's responses": (address) => async (conversation, input, id, signal) => {
    const request = { model: "asker", input, conversation };
    const { output_text } = await openai(address).responses.create(request, optionsOf(id, signal));
    return firstLine(output_text);
  },
  "AI SDK": (address) => async (thread, content, id, signal) => {
    const window = uiChat(address, { agent: "asker", id: thread });
    signal?.addEventListener("abort", () => void window.chat.stop());
    const text = await window.say(content, id);
    if (window.chat.error) throw window.chat.error;
    const asked = window.asked()?.input as { readonly question: string } | undefined;
    return text === "" && asked ? asked.question : text;
  },
  "AG-UI":
    ({ url, key }) =>
    async (threadId, content, id, signal) => {
      const agent = new HttpAgent({
        url: `${url}/ag-ui/asker`,
        ...{ threadId, headers: { "X-API-Key": key }, fetch: fetchToTheEnd },
      });
      signal?.addEventListener("abort", () => agent.abortRun());
      agent.addMessage({ id, role: "user", content });
      let end: { result?: unknown; outcome?: { interrupts?: { message?: string }[] } } | undefined;
      let failure = "The run has no end";
      await agent
        .runAgent(
          {},
          {
            onRunFinishedEvent: ({ event }) => {
              end = event as never;
            },
            onRunErrorEvent: ({ event }) => {
              failure = event.message;
            },
          },
        )
        .catch(() => {});
      if (!end) throw new Error(failure);
      return firstLine(end.outcome?.interrupts?.[0]?.message ?? String(end.result));
    },
  A2A: (address) => async (contextId, text, id, signal) => {
    const client = await connect(address, "JSONRPC", "asker", signal);
    const { state, says, artifacts } = shown(await send(client, { ...messageOf(id, [{ text }]), contextId }));
    if (state === "TASK_STATE_FAILED") throw new Error(String(says[0]));
    return firstLine(String(says[0] ?? artifacts.Result));
  },
  MCP: (address) => async (thread, message, id, signal) => {
    const client = await connectPlain(address);
    const { content, isError } = await client.callTool(
      {
        name: "asker",
        arguments: { message, thread },
        _meta: { "agent-control-service/idempotency-key": id },
      },
      signal ? { signal } : {},
    );
    const text = (content as { text: string }[])[0]!.text;
    if (isError) throw new Error(text);
    return firstLine(text);
  },
  "svc chat": (address) => async (thread, content, id, signal) => {
    const { url, key } = address;
    // The command continues threads that exist: one of a program that starts them.
    await fetch(`${url}/agents/asker/jobs`, {
      method: "POST",
      headers: { "x-api-key": key, "content-type": "application/json" },
      body: JSON.stringify({ job_context: { job_id: thread } }),
    });
    const [printed, noted]: [string[], string[]] = [[], []];
    const argv = ["chat", "asker", "--thread", thread, "--message", content, "--id", id];
    const said = main(argv, {
      ...{ argv, self: [], cwd: process.cwd(), interactive: false, platforms: {} },
      env: { SERVICE_URL: url, SERVICE_API_KEY: key },
      print: (line) => void printed.push(line),
      note: (line) => void noted.push(line),
    });
    // A terminal that is closed: nobody reads the rest.
    const left = new Promise<void>((resolve) => signal?.addEventListener("abort", () => resolve()));
    await Promise.race([said, left]);
    if (printed.length === 0) throw new Error(noted.join("\n"));
    // A question has "? " before it, after an empty line.
    return firstLine(printed[0]!.trimStart().replace(/^\? /, ""));
  },
};

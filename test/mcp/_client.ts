import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createTaskSessionFromClient, type RawClientDispatch } from "@modelcontextprotocol/ext-tasks/client";
import { onTestFinished } from "vitest";

export interface Address {
  readonly url: string;
  readonly key: string;
}

type Json = Readonly<Record<string, unknown>>;

const REVISION = "2026-07-28";
const INFO = { name: "a-test", version: "1.0.0" };
const FORMS = { elicitation: { form: {} } };

/** The official client, without tasks; of the revisions before 2026-07-28 unless `modern`. */
export async function connectPlain({ url, key }: Address, { modern = false } = {}): Promise<Client> {
  const client = new Client(INFO, {
    capabilities: FORMS,
    ...(modern && { versionNegotiation: { mode: "auto" } }),
  });
  const headers = { "x-api-key": key };
  await client.connect(new StreamableHTTPClientTransport(new URL("/mcp", url), { requestInit: { headers } }));
  onTestFinished(() => client.close());
  return client;
}

/** The official client of tasks, on the official client. */
export async function connect(address: Address, capabilities: Json = FORMS) {
  const client = await connectPlain(address, { modern: true });
  const session = createTaskSessionFromClient(client, {
    endpointId: "the-service",
    rawDispatch: rawDispatch(address),
    v2RequestFraming: {
      protocolVersion: REVISION,
      clientInfo: INFO,
      clientCapabilities: capabilities as never,
    },
  });
  return {
    client,
    session,
    /** The whole task, as the server tells it. */
    async get(taskId: string): Promise<Json & { readonly status: string }> {
      return (await session.task(taskId as never).snapshot()).raw as never;
    },
    /** The same once it no longer works. */
    async settled(taskId: string): Promise<Json & { readonly status: string }> {
      for (;;) {
        const task = await this.get(taskId);
        if (task.status !== "working") return task;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
    /** Starts a task; resolves with its id. */
    async start(tool: string, args: Json, metadata: Json = {}): Promise<string> {
      const execution = await session.callTool(tool, args as never, { metadata: metadata as never });
      const id = execution.handle?.taskId;
      await execution.detach();
      if (id === undefined) throw new Error("The call has no task");
      return id;
    },
    update: (taskId: string, responses: Json) => session.task(taskId as never).updateJson(responses),
    cancel: (taskId: string) => session.task(taskId as never).cancel(),
  };
}

let last = 0;

/** The SDK's client cannot send requests of the extension yet: they are sent beside it. */
function rawDispatch({ url, key }: Address): RawClientDispatch {
  return async (request) => {
    const message = { jsonrpc: "2.0", id: ++last, ...(request as Json) } as never as {
      method: string;
      params: { name?: string; taskId?: string };
    };
    const name = message.params.name ?? message.params.taskId ?? "";
    const response = await fetch(new URL("/mcp", url), {
      method: "POST",
      headers: {
        ...{ "content-type": "application/json", accept: "application/json, text/event-stream" },
        ...{ "mcp-protocol-version": REVISION, "mcp-method": message.method, "mcp-name": name },
        "x-api-key": key,
      },
      body: JSON.stringify(message),
    });
    const { error, result } = (await response.json()) as { error?: never; result?: never };
    return error ? { kind: "error", error } : { kind: "result", result: result as never };
  };
}

import type { TestServer } from "agent-control-service/testing";
import type { Binding } from "./_client.ts";

/** What came back: the result, or the reason and the code of an error. */
export interface Answered {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: any member of any message
  readonly result?: any;
  /** The reason of `google.rpc.ErrorInfo`, such as `TASK_NOT_FOUND`. */
  readonly reason?: string | undefined;
  readonly domain?: string | undefined;
  /** The type of its first detail. */
  readonly type?: string | undefined;
  /** Of JSON-RPC, or the status in the error of REST. */
  readonly code?: number;
  readonly message?: string;
}

interface Options {
  readonly headers?: Readonly<Record<string, string>>;
  readonly agent?: string;
  /** Whose request it is. @default the API key of the service */
  readonly key?: string;
}

type Params = Readonly<Record<string, unknown>>;

const query = (params: Params): string => {
  const given = Object.entries(params).map(([name, value]): [string, string] => [name, String(value)]);
  return given.length === 0 ? "" : `?${new URLSearchParams(given)}`;
};

/** Requests of the REST binding, by method of JSON-RPC. */
const REST: Readonly<Record<string, (params: Params) => [method: string, path: string, json?: unknown]>> = {
  SendMessage: (params) => ["POST", "/message:send", params],
  SendStreamingMessage: (params) => ["POST", "/message:stream", params],
  GetTask: ({ id, ...rest }) => ["GET", `/tasks/${id}${query(rest)}`],
  ListTasks: (params) => ["GET", `/tasks${query(params)}`],
  CancelTask: ({ id }) => ["POST", `/tasks/${id}:cancel`, {}],
  SubscribeToTask: ({ id }) => ["POST", `/tasks/${id}:subscribe`, {}],
  CreateTaskPushNotificationConfig: ({ taskId, ...config }) => [
    "POST",
    `/tasks/${taskId}/pushNotificationConfigs`,
    config,
  ],
  GetTaskPushNotificationConfig: ({ taskId, id }) => [
    "GET",
    `/tasks/${taskId}/pushNotificationConfigs/${encodeURIComponent(String(id))}`,
  ],
  ListTaskPushNotificationConfigs: ({ taskId }) => ["GET", `/tasks/${taskId}/pushNotificationConfigs`],
  DeleteTaskPushNotificationConfig: ({ taskId, id }) => [
    "DELETE",
    `/tasks/${taskId}/pushNotificationConfigs/${encodeURIComponent(String(id))}`,
  ],
  GetExtendedAgentCard: () => ["GET", "/extendedAgentCard"],
};

function request(
  server: TestServer,
  binding: Binding,
  { method, params, options }: { method: string; params: Params; options: Options },
): Promise<Response> {
  const { agent = "refunds" } = options;
  const headers = { "a2a-version": "1.0", ...options.headers };
  const key = options.key === undefined ? {} : { key: options.key };
  if (binding === "JSONRPC")
    return server.request(`/a2a/${agent}`, {
      ...{ json: { jsonrpc: "2.0", id: 1, method, params }, headers },
      ...key,
    });
  const [verb, path, json] = REST[method]!(params);
  return server.request(`/a2a/${agent}${path}`, {
    method: verb,
    headers,
    ...key,
    ...(json !== undefined && { json }),
  });
}

/** Calls a method of the protocol over one of the bindings. */
export async function call(
  server: TestServer,
  binding: Binding,
  method: string,
  params: Params = {},
  options: Options = {},
): Promise<Answered> {
  const response = await request(server, binding, { method, params, options });
  return read(response.status, JSON.parse(await response.text()), binding);
}

// biome-ignore lint/suspicious/noExplicitAny: any member of any message
function read(status: number, body: any, binding: Binding): Answered {
  if (!body?.error) return { status, result: binding === "JSONRPC" ? body.result : body };
  const details = binding === "JSONRPC" ? body.error.data : body.error.details;
  return {
    status,
    ...{ code: body.error.code, message: body.error.message },
    ...{ reason: details?.[0]?.reason, domain: details?.[0]?.domain, type: details?.[0]?.["@type"] },
  };
}

/** The events of a streaming method; `seen` gets each as it comes, and ends the stream by returning true. */
export async function follow(
  server: TestServer,
  binding: Binding,
  {
    method,
    params,
    seen,
    ...options
  }: { method: string; params: Params; seen?: (event: Answered["result"]) => unknown } & Options,
): Promise<Answered["result"][]> {
  const response = await request(server, binding, { method, params, options });
  const events: Answered["result"][] = [];
  let text = "";
  for await (const part of response.body!.pipeThrough(new TextDecoderStream())) {
    text += part;
    const blocks = text.split("\n\n");
    text = blocks.pop()!;
    for (const block of blocks) {
      const data = /^data: (.*)$/m.exec(block)?.[1];
      if (data === undefined) continue;
      const json = JSON.parse(data);
      const event = binding === "JSONRPC" ? (json.result ?? json) : json;
      events.push(event);
      if ((await seen?.(event)) === true) return events;
    }
  }
  return events;
}

/** A message of a user, as JSON. */
export const said = (messageId: string, parts: readonly object[], more: object = {}) => ({
  message: { messageId, role: "ROLE_USER", parts, ...more },
});

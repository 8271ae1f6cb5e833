import { type Message, type Task, taskStateToJSON } from "@a2a-js/sdk";
import {
  type Client,
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from "@a2a-js/sdk/client";

export interface Address {
  readonly url: string;
  readonly key: string;
}

export type Binding = "JSONRPC" | "HTTP+JSON";

/** The official client of an agent, over one of the bindings. */
export function connect(
  { url, key }: Address,
  binding: Binding = "JSONRPC",
  agent = "refunds",
  signal?: AbortSignal,
): Promise<Client> {
  const fetchImpl: typeof fetch = (input, init) => {
    const headers = new Headers(init?.headers);
    headers.set("x-api-key", key);
    return fetch(input, { ...init, headers, ...(signal && { signal }) });
  };
  const factory = new ClientFactory({
    transports: [
      binding === "JSONRPC"
        ? new JsonRpcTransportFactory({ fetchImpl })
        : new RestTransportFactory({ fetchImpl }),
    ],
    cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
  });
  return factory.createFromUrl(`${url}/a2a/${agent}/`);
}

type Part = { readonly text: string } | { readonly data: object };

/** A message of a user. */
export function messageOf(
  messageId: string,
  parts: readonly Part[],
  taskId = "",
  metadata?: object,
): Message {
  return {
    ...{ messageId, contextId: "", taskId, role: 1, extensions: [], referenceTaskIds: [] },
    metadata: metadata as Record<string, never> | undefined,
    parts: parts.map((part) => ({
      content: "text" in part ? { $case: "text", value: part.text } : { $case: "data", value: part.data },
      ...{ metadata: undefined, filename: "", mediaType: "" },
    })),
  };
}

/** Sends a message; resolves with the task. */
export async function send(client: Client, message: Message, returnImmediately = false): Promise<Task> {
  const configuration = { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately };
  return (await client.sendMessage({ tenant: "", message, configuration, metadata: undefined })) as Task;
}

export const stateOf = (task: Task) => taskStateToJSON(task.status!.state);

/** What a task's message has, and its artifacts, by name. */
export function shown(task: Task) {
  return {
    state: stateOf(task),
    says: task.status?.message?.parts.map(({ content }) => content?.value as unknown) ?? [],
    artifacts: Object.fromEntries(
      task.artifacts.map(({ name, parts }) => [name, parts[0]?.content?.value as unknown]),
    ),
  };
}

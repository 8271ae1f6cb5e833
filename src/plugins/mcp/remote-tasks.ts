import { randomUUID } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import type * as Sdk from "@modelcontextprotocol/client";
import { NonRetryableError } from "../../core/agents/retry-errors.ts";
import { TASKS } from "./extension.ts";

type Values = Readonly<Record<string, unknown>>;

/** A call of a tool that a server continues by itself, as a step records it. */
export interface RemoteTask {
  readonly task: string;
}

/** Milliseconds between two requests about a task. */
const SHORTEST_PAUSE = 100;
const USUAL_PAUSE = 1000;
const LONGEST_PAUSE = 60_000;
/** Milliseconds for the last request about a task whose job was stopped. */
const CANCEL_LIMIT = 5000;

/** The client of a server, and what requests need that it does not know. */
export interface Connection {
  readonly client: Sdk.Client;
  readonly transport: Sdk.StreamableHTTPClientTransport;
  /** What every request of the revision of 2026 has in its `_meta`; `undefined` for the revisions before it. */
  readonly envelope: Values | undefined;
}

/** Whether a call of the tool may become a task; the revision of 2025 says so for each tool. */
export async function mayBecomeTask({ client, envelope }: Connection, tool: string, signal: AbortSignal) {
  const capabilities = (client.getServerCapabilities() ?? {}) as {
    readonly extensions?: Values;
    readonly tasks?: { readonly requests?: { readonly tools?: { readonly call?: unknown } } };
  };
  if (envelope) return capabilities.extensions?.[TASKS] !== undefined;
  if (capabilities.tasks?.requests?.tools?.call === undefined) return false;
  const { tools } = await client.listTools(undefined, { signal });
  const execution = tools.find(({ name }) => name === tool)?.execution;
  return execution?.taskSupport === "required" || execution?.taskSupport === "optional";
}

/** Calls a tool that may become a task: its result, or the task. */
export async function callAsTask(
  connection: Connection,
  params: Values,
  signal: AbortSignal,
): Promise<Values | RemoteTask> {
  const given = connection.envelope ? params : { ...params, task: {} };
  const result = await request(connection, { method: "tools/call", params: given }, signal);
  const task = connection.envelope
    ? result.resultType === "task" && result
    : (result.task as Values | undefined);
  if (task) return { task: String((task as Values).taskId) };
  if (result.resultType === "input_required")
    throw new NonRetryableError("The tool asks its caller, who is a program: it gets no answer");
  return result;
}

/** The result of a task, once it has ended; a job that is stopped cancels it. */
export async function resultOfTask(
  connection: Connection,
  { task: taskId }: RemoteTask,
  signal: AbortSignal,
): Promise<Values> {
  try {
    for (;;) {
      const shown = await request(connection, { method: "tasks/get", params: { taskId } }, signal);
      const result = await endOf(connection, { taskId, shown }, signal);
      if (result) return result;
      const asked = Number(shown.pollIntervalMs ?? shown.pollInterval ?? USUAL_PAUSE) || USUAL_PAUSE;
      await setTimeout(Math.min(Math.max(asked, SHORTEST_PAUSE), LONGEST_PAUSE), undefined, { signal });
    }
  } catch (error) {
    if (hasJobEnded(signal)) await cancel(connection, taskId);
    throw error;
  }
}

async function endOf(
  connection: Connection,
  { taskId, shown }: { readonly taskId: string; readonly shown: Values },
  signal: AbortSignal,
): Promise<Values | undefined> {
  const { status, statusMessage, error, result } = shown;
  const why = (error as { message?: string } | undefined)?.message ?? statusMessage;
  if (status === "cancelled") throw new NonRetryableError(`The server has cancelled the task "${taskId}"`);
  // In the revision of 2025, what has failed has a result, too.
  if (!connection.envelope && (status === "completed" || status === "failed"))
    return request(connection, { method: "tasks/result", params: { taskId } }, signal);
  if (status === "failed")
    throw new NonRetryableError(`The task "${taskId}" has failed: ${why ?? "the server does not say why"}`);
  return status === "completed" ? (result as Values) : undefined;
}

/** Whether the job has ended by itself or was stopped. Where it continues, in another process or attempt, so does its task. */
function hasJobEnded({ aborted, reason }: AbortSignal): boolean {
  const { name, reason: why } = (reason ?? {}) as { readonly name?: string; readonly reason?: string };
  return aborted && name === "RunEndedError" && why !== "interrupted";
}

async function cancel(connection: Connection, taskId: string): Promise<void> {
  const params = { taskId };
  const limit = AbortSignal.timeout(CANCEL_LIMIT);
  // The job has ended either way.
  await request(connection, { method: "tasks/cancel", params }, limit).catch(() => {});
}

/** Sends a request whose method or result the SDK's client does not know, on the transport of the client. */
async function request(
  { transport, envelope }: Connection,
  { method, params }: { readonly method: string; readonly params: Values },
  signal: AbortSignal,
): Promise<Values> {
  signal.throwIfAborted();
  const id = randomUUID();
  const others = transport.onmessage;
  const _meta = { ...envelope, ...(params._meta as Values | undefined) };
  const message = { jsonrpc: "2.0", id, method, params: { ...params, _meta } } as const;
  let stop = (): void => {};
  try {
    return await new Promise<Values>((resolve, reject) => {
      const abort = (): void => reject(signal.reason as Error);
      signal.addEventListener("abort", abort, { once: true });
      stop = () => signal.removeEventListener("abort", abort);
      transport.onmessage = (given) => {
        if (!("id" in given) || given.id !== id) return others?.(given);
        if ("result" in given) return resolve(given.result as Values);
        const { code, message } = (given as { error: { code: number; message: string } }).error;
        reject(Object.assign(new Error(message), { code }));
      };
      const onRequestStreamEnd = (): void => reject(new Error(`The server has not answered ${method}`));
      transport.send(message, { requestSignal: signal, onRequestStreamEnd }).catch(reject);
    });
  } finally {
    stop();
    transport.onmessage = others;
  }
}

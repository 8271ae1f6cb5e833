import type { StepInfo } from "../../agents/run-context.ts";
import { type AgentProcess, ProcessEndedError } from "./agent-process.ts";
import type { AgentProcesses } from "./agent-processes.ts";
import { fromWire, toWire } from "./wire-error.ts";

/** Who waits for what a process sends of a call. */
export interface Waiter {
  readonly name: string;
  /** Takes what a step's try has reported. */
  readonly report?: StepInfo["report"] | undefined;
  /** Which try of a step; nothing for one that has started there by itself. */
  readonly attempt?: number | undefined;
  readonly emit?: StepInfo["emit"] | undefined;
  readonly file?: StepInfo["file"] | undefined;
  readonly traceHeaders?: StepInfo["traceHeaders"] | undefined;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/** Ends one of those that wait for a process. */
export function settle(
  waiters: Map<number, Waiter>,
  id: number,
  { value, error }: { value?: unknown; error?: Parameters<typeof fromWire>[0] },
): void {
  const waiting = waiters.get(id);
  waiters.delete(id);
  if (error) waiting?.reject(fromWire(error));
  else waiting?.resolve(value);
}

/** Calls a method in a process; its signal is sent there. */
export function callMethod(
  process: AgentProcess,
  {
    id,
    name,
    isCustom = false,
    context,
    waiting,
  }: {
    readonly id: number;
    readonly name: string;
    readonly isCustom?: boolean;
    readonly context: Record<string, unknown>;
    readonly waiting: Map<number, Waiter>;
  },
): Promise<unknown> {
  const { signal, log: _log, telemetry: _telemetry, get: _get, ...plain } = context;
  const answered = new Promise<unknown>((resolve, reject) => waiting.set(id, { name, resolve, reject }));
  const abort = () =>
    process.send({ type: "abortMethod", id, error: toWire((signal as AbortSignal).reason) });
  (signal as AbortSignal | undefined)?.addEventListener("abort", abort, { once: true });
  process.send({ type: "method", id, name, isCustom, context: plain });
  return answered;
}

/** Calls a method beside a job's handler, in a process of its own. */
export async function callBesideRun(
  processes: AgentProcesses,
  agent: Parameters<AgentProcesses["take"]>[0],
  call: { readonly name: string; readonly isCustom?: boolean; readonly context: Record<string, unknown> },
): Promise<unknown> {
  const process = await processes.take(agent);
  const waiting = new Map<number, Waiter>();
  let isAnswered = false;
  process.onEnd = (how) => {
    const error = new ProcessEndedError(
      `The process of agent "${agent.slug}" ${how} in its method ${call.name}`,
    );
    for (const { reject } of waiting.values()) reject(error);
  };
  process.onMessage = (message) => {
    if (message.type === "answer") settle(waiting, message.id, message);
    if (message.type === "answer") isAnswered = true;
  };
  const signal = call.context.signal as AbortSignal | undefined;
  try {
    const late = new Promise<never>((_, reject) =>
      signal?.addEventListener("abort", () => reject(signal.reason as Error), { once: true }),
    );
    return await Promise.race([callMethod(process, { id: processes.nextCall(), ...call, waiting }), late]);
  } finally {
    if (isAnswered) processes.release(process);
    else processes.end(process, "was left behind");
  }
}

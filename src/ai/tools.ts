import type { CaseHandle, JobHandle, StepInfo } from "../core/agents/run-context.ts";
import { getOrMake } from "../core/base/get-or-make.ts";
import { Mutex } from "../core/base/mutex.ts";
import { parseJson } from "../core/base/parse-json.ts";
import { fromRecord, toRecord } from "./json-codec.ts";
import {
  type Approval,
  checkFunctionTool,
  checkTool,
  type DurableToolOptions,
  type NoUnknownOptions,
  type ToolWithOptions,
  type UnknownFunctionOption,
  type UnknownToolOption,
} from "./tool-options.ts";

/** A tool of the AI SDK. */
interface ToolLike {
  readonly execute?: unknown;
  readonly needsApproval?: unknown;
}

/** What a tool is called with, besides its input. */
interface CallDetails {
  readonly toolCallId: string;
  readonly abortSignal?: AbortSignal;
}

type Execute = (input: unknown, details: CallDetails) => unknown;

/**
 * Tools of the AI SDK, by name, or of the OpenAI Agents SDK, in a list: their calls are steps of a job or case, made
 * once, whatever is resumed. Those with `approval`, or with `needsApproval` of these libraries, ask a person first; what a person refuses is not done, and the model gets to know.
 *
 * @example
 * const tools = durableTools(item, {
 *   search: tool({ inputSchema, execute: ({ query }) => search(query) }),
 *   refund: { ...tool({ inputSchema, execute: ({ order }) => refund(order) }), approval: true },
 * });
 */
export function durableTools<T extends object>(
  handle: JobHandle | CaseHandle,
  tools: readonly (T & DurableToolOptions)[],
  ...refused: NoUnknownOptions<UnknownFunctionOption<T>>
): T[];
export function durableTools<
  Inputs extends Readonly<Record<string, unknown>>,
  T extends Readonly<Record<string, object>>,
>(
  handle: JobHandle | CaseHandle,
  tools: { readonly [Name in keyof Inputs]: ToolWithOptions<Inputs[Name]> } & T,
  ...refused: NoUnknownOptions<UnknownToolOption<T>>
): T;
export function durableTools(
  handle: JobHandle | CaseHandle,
  tools: Readonly<Record<string, object>> | readonly object[],
): unknown {
  const approve = approvals(handle);
  if (Array.isArray(tools)) return tools.map((tool: FunctionToolLike) => functionTool(handle, tool, approve));
  const made = Object.entries(tools).map(([name, tool]) => [name, durableTool(handle, name, tool, approve)]);
  return Object.fromEntries(made);
}

type Approve = (name: string, callId: string, question: string) => Promise<string | undefined>;

function durableTool(
  handle: JobHandle | CaseHandle,
  name: string,
  tool: ToolLike & DurableToolOptions,
  approve: Approve,
): ToolLike {
  checkTool(name, tool);
  const { approval, steps = false, needsApproval, ...rest } = tool;
  if (typeof tool.execute !== "function") return tool;
  const execute = tool.execute as Execute;
  const call: Execute = async (input, details) => {
    // Either is enough: what the tool itself says is not overruled.
    const question =
      (await questionOf(approval, name, input)) ??
      (await questionOf(needsApproval as Approval | undefined, name, input, details));
    if (question !== undefined) {
      const refusal = await approve(name, details.toolCallId, question);
      if (refusal !== undefined) return refusal;
    }
    if (steps) return execute(input, details);
    return runTool(handle, { name, input, callId: details.toolCallId }, ({ signal, idempotencyKey }) => {
      const { abortSignal } = details;
      const both = abortSignal ? AbortSignal.any([abortSignal, signal]) : signal;
      return lastOf(execute(input, { ...details, abortSignal: both, ...{ idempotencyKey } }));
    });
  };
  return { ...rest, execute: call };
}

/** A function tool of the OpenAI Agents SDK. */
interface FunctionToolLike extends DurableToolOptions {
  readonly type?: string;
  readonly name: string;
  readonly invoke: (context: unknown, input: string, details?: FunctionCallDetails) => Promise<unknown>;
  readonly needsApproval?: (context: unknown, input: unknown, callId?: string) => Promise<boolean>;
}

interface FunctionCallDetails {
  readonly toolCall?: { readonly callId?: string };
  readonly signal?: AbortSignal;
}

function functionTool(handle: JobHandle | CaseHandle, tool: FunctionToolLike, approve: Approve): object {
  checkFunctionTool(tool);
  if (tool.type !== "function" || typeof tool.invoke !== "function") return tool;
  const { approval, steps = false, ...rest } = tool;
  const { name } = tool;
  const invoke: FunctionToolLike["invoke"] = async (context, text, details = {}) => {
    const input = parseJson(text, text);
    const callId = details.toolCall?.callId ?? text;
    const question =
      (await questionOf(approval, name, input)) ??
      (await questionOf(await tool.needsApproval?.(context, input, callId), name, input));
    const refusal = question === undefined ? undefined : await approve(name, callId, question);
    if (refusal !== undefined) return refusal;
    if (steps) return tool.invoke(context, text, details);
    return runTool(handle, { name, input, callId }, ({ signal }) => {
      const both = details.signal ? AbortSignal.any([details.signal, signal]) : signal;
      return tool.invoke(context, text, { ...details, signal: both });
    });
  };
  return { ...rest, invoke, needsApproval: async () => false };
}

/** Makes the call of a tool as a step, which is found by the model's id of the call. */
export async function runTool(
  handle: Pick<JobHandle | CaseHandle, "step">,
  { name, input, callId }: { readonly name: string; readonly input: unknown; readonly callId: string },
  fn: (info: StepInfo) => unknown,
): Promise<unknown> {
  const made = await handle.step(name, async (info) => toRecord(await fn(info)), {
    key: callId,
    kind: "tool",
    input,
  });
  return fromRecord(made);
}

/** The question that a person must answer before a call; none where no approval is needed. Throws if that is not said. */
async function questionOf(
  approval: Approval | undefined,
  name: string,
  ...given: readonly [input: unknown, details?: unknown]
): Promise<string | undefined> {
  if (approval === undefined) return undefined;
  const asks: unknown =
    typeof approval === "function"
      ? await (approval as (...given: unknown[]) => unknown)(...given)
      : approval;
  if (asks === false) return undefined;
  if (asks === true) return `Allow "${name}" with ${JSON.stringify(given[0])}?`;
  if (typeof asks === "string" && asks.trim() !== "") return asks;
  throw new TypeError(
    `The approval of the tool "${name}" gave ${describe(asks)}, so it was not called: return true, false, or the question as text`,
  );
}

function describe(value: unknown): string {
  return value === undefined
    ? "nothing"
    : typeof value === "string"
      ? "empty text"
      : `a value of type ${typeof value}`;
}

const FIELDS = [
  { name: "approved", field_type: "BooleanField" as const, required: true, description: "Allow it" },
  { name: "comment", field_type: "CharField" as const, required: false, description: "For the model" },
];

/** Who asks for an approval in a case. */
const ASKING = new WeakMap<CaseHandle, Mutex>();

/**
 * Asks people about calls of tools. A case has one open question at a time, so calls that a model makes beside each other
 * are asked about one after the other; those of a job get a case each. Resolves with what the model gets to know of a
 * refusal.
 */
export function approvals(handle: JobHandle | CaseHandle): Approve {
  const ask = async (item: CaseHandle, name: string, question: string) => {
    const answer = await item.ask(`approve ${name}`, { question, fields: FIELDS });
    const { approved, comment } = answer as { approved?: boolean; comment?: string | null };
    if (approved) return undefined;
    return `A person has refused this call${comment ? `: ${comment}` : ""}. It was not made.`;
  };
  return (name, callId, question) => {
    if (isJob(handle)) return askApart(handle, { name, callId }, (item) => ask(item, name, question));
    return getOrMake(ASKING, handle, () => new Mutex()).run(() => ask(handle, name, question));
  };
}

async function askApart(
  job: JobHandle,
  { name, callId }: { readonly name: string; readonly callId: string },
  ask: (item: CaseHandle) => Promise<string | undefined>,
): Promise<string | undefined> {
  const item = await job.openCase({ id: `approve-${callId}`, name: `Approve ${name}` });
  const refusal = await ask(item);
  await item.close({ approved: refusal === undefined });
  return refusal;
}

export function isJob(handle: JobHandle | CaseHandle): handle is JobHandle {
  return "openCase" in handle;
}

/** A tool may give preliminary results; the last one counts. */
async function lastOf(result: unknown): Promise<unknown> {
  const given = await result;
  if (typeof given !== "object" || given === null || !(Symbol.asyncIterator in given)) return given;
  let last: unknown;
  for await (const one of given as AsyncIterable<unknown>) last = one;
  return last;
}

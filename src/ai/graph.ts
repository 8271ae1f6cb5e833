import type { AsyncLocalStorage } from "node:async_hooks";
import { randomUUID } from "node:crypto";
import type { CaseHandle, StepOptions } from "../core/agents/run-context.ts";
import type { AgentMethodFieldInput } from "../core/models/agent-method-field.ts";
import { fromRecord, toRecord } from "./json-codec.ts";

/** What a compiled graph of LangGraph has. */
export interface GraphLike<Input, Output> {
  invoke(input: Input, config?: never): Promise<Output>;
  readonly checkpointer?: unknown;
}

/** What a node gets besides the state. */
export interface NodeConfig {
  readonly configurable?: Readonly<Record<string, unknown>>;
  readonly signal?: AbortSignal;
}

/** In a job, a node's config has the key of its step too. */
export interface DurableNodeConfig extends NodeConfig {
  /** The same at every attempt of the node: send it to services that recognize repeated requests. */
  readonly idempotencyKey?: string;
}

/** How a person is asked about an interrupt. */
export interface InterruptQuestion {
  readonly question: string;
  /** @default one text field, whose value is what `interrupt` returns */
  readonly fields?: readonly AgentMethodFieldInput[];
}

export interface RunGraphOptions {
  /** Makes the question of an interrupt's value. @default its text, or its `question` and `fields` */
  readonly question?: (value: unknown) => InterruptQuestion;
  /** Passed to the graph. */
  readonly config?: NodeConfig & Readonly<Record<string, unknown>>;
}

type Fields = Readonly<Record<string, unknown>>;

const HANDLE = "__durable";

/**
 * A node of LangGraph as a step: in `runGraph` it runs once, whatever is resumed, and its update of the state is
 * recorded. Its steps are found by `name`. Elsewhere it is the function itself.
 *
 * @example
 * new StateGraph(State).addNode("draft", durableNode("draft", async (state) => ({ draft: await write(state) })));
 */
export function durableNode<State, Update, Config extends NodeConfig>(
  name: string,
  fn: (state: State, config: Config & DurableNodeConfig) => Update | Promise<Update>,
  options: Pick<StepOptions, "retries" | "backoff" | "timeout" | "retryIf"> = {},
): (state: State, config: Config) => Promise<Update> {
  return async (state, config) => {
    const handle = config?.configurable?.[HANDLE] as Pick<CaseHandle, "step"> | undefined;
    if (!handle) return fn(state, config);
    const inContext = graphContext();
    const made = (await handle.step(
      name,
      async ({ signal, idempotencyKey }) => {
        try {
          return {
            update: toRecord(await inContext(() => fn(state, { ...config, signal, idempotencyKey }))),
          };
        } catch (error) {
          if (!isInterrupt(error)) throw error;
          return { interrupts: toRecord(error.interrupts) };
        }
      },
      { ...options, input: toRecord(state) },
    )) as Fields;
    if ("interrupts" in made) throw interruptOf(made.interrupts);
    return fromRecord(made.update) as Update;
  };
}

/**
 * Runs a graph in a case. Nodes made with `durableNode` are steps, and `interrupt` asks a person, for days if necessary.
 * The graph needs a checkpointer if it interrupts, and `MemorySaver` is enough: a replay rebuilds what it has. Rejects if
 * several nodes interrupt at the same time.
 */
export async function runGraph<Input, Output>(
  graph: GraphLike<Input, Output>,
  item: CaseHandle,
  input: Input,
  { question = readQuestion, config = {} }: RunGraphOptions = {},
): Promise<Output> {
  // What an earlier run of the job has left there does not count.
  const thread_id = randomUUID();
  const configurable = { ...config.configurable, thread_id, [HANDLE]: item };
  let next: unknown = input;
  try {
    for (;;) {
      const result = await graph.invoke(next as Input, { ...config, configurable } as never);
      const interrupts = (result as { readonly __interrupt__?: readonly { value?: unknown }[] } | null)
        ?.__interrupt__;
      if (!interrupts || interrupts.length === 0) return result;
      if (interrupts.length > 1)
        throw new TypeError(
          "Several nodes of the graph interrupt at the same time: let them run one after the other",
        );
      next = new Resume(await ask(item, question(interrupts[0]!.value)));
    }
  } finally {
    const { deleteThread } = (graph.checkpointer ?? {}) as { deleteThread?: (id: string) => Promise<void> };
    await deleteThread?.call(graph.checkpointer, thread_id);
  }
}

/** What LangGraph takes as its `Command`. */
class Resume {
  readonly lg_name = "Command";
  readonly goto: readonly string[] = [];
  readonly resume: unknown;

  constructor(resume: unknown) {
    this.resume = resume;
  }
}

async function ask(item: CaseHandle, { question, fields }: InterruptQuestion): Promise<unknown> {
  const list = fields ?? [{ name: "answer", field_type: "CharField" as const }];
  const answer = (await item.ask("interrupt", { question, fields: [...list] })) as Fields;
  return fields ? answer : answer.answer;
}

function readQuestion(value: unknown): InterruptQuestion {
  if (typeof value === "string") return { question: value };
  const { question, fields } = (value ?? {}) as Partial<InterruptQuestion>;
  if (typeof question === "string") return { question, ...(fields && { fields }) };
  return { question: JSON.stringify(value) };
}

/** Where LangChain keeps what `interrupt` reads. */
const CONTEXT = Symbol.for("ls:tracing_async_local_storage");

/** Calls a function as if the graph called it: in an isolated agent, a step's function is called elsewhere. */
function graphContext(): <T>(fn: () => T) => T {
  const storage = (globalThis as { [CONTEXT]?: AsyncLocalStorage<unknown> })[CONTEXT];
  const store = storage?.getStore();
  return (fn) => (storage ? storage.run(store, fn) : fn());
}

interface Interrupt extends Error {
  readonly interrupts: readonly unknown[];
}

function isInterrupt(error: unknown): error is Interrupt {
  return error instanceof Error && error.name === "GraphInterrupt" && "interrupts" in error;
}

/** What `interrupt` has thrown, as LangGraph recognizes it. */
function interruptOf(interrupts: unknown): Error {
  const error = new Error(JSON.stringify(interrupts));
  error.name = "GraphInterrupt";
  return Object.assign(error, { interrupts, is_bubble_up: true });
}

import type { AsyncLocalStorage } from "node:async_hooks";
import { randomUUID } from "node:crypto";
import type { CaseHandle, JobHandle, StepOptions } from "../core/agents/run-context.ts";
import { type NamesOf, refuseUnknown } from "../core/base/refuse-unknown.ts";
import type { AgentMethodFieldInput } from "../core/models/agent-method-field.ts";
import { fromRecord, toRecord } from "./json-codec.ts";
import { isJob } from "./tools.ts";

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

/** Options of the step that a node is. */
export type DurableNodeOptions = Pick<StepOptions, "retries" | "backoff" | "timeout" | "retryIf">;

const NODE_NAMES: NamesOf<DurableNodeOptions> = {
  retries: true,
  backoff: true,
  timeout: true,
  retryIf: true,
};
const RUN_GRAPH_NAMES: NamesOf<RunGraphOptions> = { question: true, config: true };

type Fields = Readonly<Record<string, unknown>>;

const DURABLE = "__durable";

/** What nodes of a graph that runs in a job get in their config. */
interface GraphRun {
  readonly handle: Pick<JobHandle, "step">;
  readonly interrupt: (value: unknown) => unknown;
  /** Number of nodes that were started. */
  started: number;
  /** Which node has interrupted, by the interrupt's id. */
  readonly nodes: Map<string, number>;
}

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
  options: DurableNodeOptions = {},
): (state: State, config: Config) => Promise<Update> {
  refuseUnknown(options, NODE_NAMES, `durableNode "${name}"`);
  return async (state, config) => {
    const run = config?.configurable?.[DURABLE] as GraphRun | undefined;
    if (!run) return fn(state, config);
    const node = run.started++;
    const inContext = graphContext();
    const made = (await run.handle.step(
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
    if (!("interrupts" in made)) return fromRecord(made.update) as Update;
    try {
      return interruptAgain(run, inContext, made.interrupts as readonly Interrupt[]);
    } catch (error) {
      if (isInterrupt(error)) for (const { id } of error.interrupts) if (id) run.nodes.set(id, node);
      throw error;
    }
  };
}

/** Interrupts the graph as a node has done when it ran: a replay gives the interrupt another id. */
function interruptAgain(run: GraphRun, inContext: Inside, [interrupt]: readonly Interrupt[]): never {
  // Those that have an answer return it.
  for (;;) inContext(() => run.interrupt(interrupt?.value));
}

/**
 * Runs a graph in a case or job. Nodes made with `durableNode` are steps, and `interrupt` asks a person, for days if
 * necessary. The graph needs a checkpointer if it interrupts, and `MemorySaver` is enough: a replay rebuilds what it has.
 * If several nodes interrupt at the same time, the graph continues with all answers: those of a case are asked one after
 * the other, as it has one open question at a time; those of a job at the same time, each in a case of its own.
 */
export async function runGraph<Input, Output>(
  graph: GraphLike<Input, Output>,
  handle: CaseHandle | JobHandle,
  input: Input,
  options: RunGraphOptions = {},
): Promise<Output> {
  refuseUnknown(options, RUN_GRAPH_NAMES, "runGraph");
  const { question = readQuestion, config = {} } = options;
  const { interrupt } = await import("@langchain/langgraph");
  const run: GraphRun = { handle, interrupt, started: 0, nodes: new Map() };
  // What an earlier run of the job has left there does not count.
  const thread_id = randomUUID();
  let next: unknown = input;
  try {
    for (;;) {
      const configurable = { ...config.configurable, thread_id, [DURABLE]: run };
      const result = await graph.invoke(next as Input, { ...config, configurable } as never);
      const interrupts = (result as { readonly __interrupt__?: readonly Interrupt[] } | null)?.__interrupt__;
      if (!interrupts || interrupts.length === 0) return result;
      next = new Resume(await askAll(handle, inOrder(interrupts, run), question));
    }
  } finally {
    const { deleteThread } = (graph.checkpointer ?? {}) as { deleteThread?: (id: string) => Promise<void> };
    await deleteThread?.call(graph.checkpointer, thread_id);
  }
}

/** Interrupts in the order in which their nodes were started, which every replay repeats; those of other nodes at the end. */
function inOrder(interrupts: readonly Interrupt[], { nodes }: GraphRun): readonly Interrupt[] {
  const place = ({ id }: Interrupt) => nodes.get(id ?? "") ?? Number.MAX_SAFE_INTEGER;
  return interrupts.toSorted((a, b) => place(a) - place(b));
}

/** What the graph continues with. */
async function askAll(
  handle: CaseHandle | JobHandle,
  interrupts: readonly Interrupt[],
  question: (value: unknown) => InterruptQuestion,
): Promise<unknown> {
  const answers: unknown[] = [];
  if (isJob(handle)) {
    const first = CASES.get(handle) ?? 1;
    CASES.set(handle, first + interrupts.length);
    const asked = interrupts.map(({ value }, index) => askApart(handle, first + index, question(value)));
    answers.push(...(await Promise.all(asked)));
  } else {
    for (const { value } of interrupts) answers.push(await ask(handle, question(value)));
  }
  if (interrupts.length === 1 && interrupts[0]!.id === undefined) return answers[0];
  return Object.fromEntries(interrupts.map(({ id }, index) => [id, answers[index]]));
}

/** Number of the next case for an interrupt, by the job. */
const CASES = new WeakMap<JobHandle, number>();

async function askApart(job: JobHandle, number: number, question: InterruptQuestion): Promise<unknown> {
  const item = await job.openCase({ id: `interrupt-${number}`, name: `Interrupt ${number}` });
  const answer = await ask(item, question);
  await item.close();
  return answer;
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

type Inside = <T>(fn: () => T) => T;

/** Calls a function as if the graph called it: in an isolated agent, a step's function is called elsewhere. */
function graphContext(): Inside {
  const storage = (globalThis as { [CONTEXT]?: AsyncLocalStorage<unknown> })[CONTEXT];
  const store = storage?.getStore();
  return (fn) => (storage ? storage.run(store, fn) : fn());
}

interface Interrupt {
  readonly id?: string | undefined;
  readonly value?: unknown;
}

function isInterrupt(error: unknown): error is Error & { readonly interrupts: readonly Interrupt[] } {
  return error instanceof Error && error.name === "GraphInterrupt" && "interrupts" in error;
}

import { AsyncLocalStorage } from "node:async_hooks";
import { callModel } from "../core/agents/call-model.ts";
import type { AgentDefinition } from "../core/agents/define-agent.ts";
import type {
  CaseHandle,
  JobHandle,
  ModelCall,
  ModelOptions,
  StepFunction,
  StepInfo,
  StepOptions,
} from "../core/agents/run-context.ts";

/** Where in an agent's code something happens. */
export interface Place {
  readonly now: () => Date;
  readonly isInStep: boolean;
}

/** One for all tests of a process: each that is in use makes every promise cost more. */
export const PLACE = new AsyncLocalStorage<Place>();

type Outcome = { readonly value: unknown } | { readonly error: unknown };

/**
 * What the steps of an agent returned without a crash. Their functions are called again in each run, for
 * their effects on variables; but they return the same values, so that a model that answers differently each
 * time is not reported.
 */
export class StepOutcomes {
  /** By call and attempt; by call only for the last attempt. */
  readonly #outcomes = new Map<string, Outcome>();
  /** Calls of the first run, and of the current one. */
  readonly #expected = new Map<string, string>();
  readonly #called = new Map<string, string>();
  #isFirst = true;
  #working = 0;

  /** Whether a step's function is being called. */
  get isWorking(): boolean {
    return this.#working > 0;
  }

  /** Later runs return what is known now. */
  keep(): void {
    this.#isFirst = false;
  }

  /** A run starts, in this process or in several. */
  begin(): void {
    this.#called.clear();
  }

  /** Names of steps that the current run has started and the first one has not, or the other way around. */
  differences(): { readonly added: readonly string[]; readonly missing: readonly string[] } {
    const without = (these: ReadonlyMap<string, string>, those: ReadonlyMap<string, string>) =>
      [...these].filter(([id]) => !those.has(id)).map(([, name]) => name);
    return {
      added: without(this.#called, this.#expected),
      missing: without(this.#expected, this.#called),
    };
  }

  async call<T>(
    step: { readonly id: string; readonly name: string },
    fn: () => Promise<T>,
    info: StepInfo,
  ): Promise<T> {
    const { id, name } = step;
    const key = `${id}#${info.attempt}`;
    (this.#isFirst ? this.#expected : this.#called).set(id, name);
    this.#working++;
    let own: Outcome;
    try {
      own = { value: await fn() };
    } catch (error) {
      own = { error };
    } finally {
      this.#working--;
    }
    const known = this.#isFirst ? undefined : (this.#outcomes.get(key) ?? this.#outcomes.get(id));
    if (this.#isFirst) for (const one of [key, id]) this.#outcomes.set(one, own);
    // If it fails in another way than before, something is missing that was there.
    const outcome = known && !("error" in own && "value" in known) ? known : own;
    if ("error" in outcome) throw outcome.error;
    return outcome.value as T;
  }
}

/** The agent, with hooks into its code. */
export function watchAgent(agent: AgentDefinition, outcomes: StepOutcomes, now: () => Date): AgentDefinition {
  const { job_start } = agent.methods;
  const place: Place = { now, isInStep: false };
  return {
    ...agent,
    methods: {
      ...agent.methods,
      job_start: {
        ...job_start,
        run: (context) =>
          PLACE.run(place, () =>
            job_start.run({
              ...context,
              job: watchHandle(context.job, "", outcomes, {
                ...place,
                open: context.job.open.bind(context.job),
              }),
            }),
          ),
      },
    },
  };
}

/** A handle whose steps are watched; its other methods are unchanged. */
function watchHandle<H extends JobHandle | CaseHandle>(
  handle: H,
  scope: string,
  outcomes: StepOutcomes,
  { open, ...place }: Place & Pick<JobHandle, "open">,
): H {
  const step = <T>(name: string, fn: StepFunction<T>, options?: StepOptions) =>
    handle.step(
      name,
      (info) => {
        // The part after the ids of the job and the case names the call; children of an agent make the same calls.
        const [job, , ...call] = info.idempotencyKey.split("/");
        const one = { id: `${job!.replace(/~\d+$/, "")}/${scope}/${call.join("/")}`, name };
        const inside = { ...place, isInStep: true };
        return outcomes.call(one, async () => PLACE.run(inside, fn, info), info);
      },
      options,
    );
  const own = {
    step,
    model: <Request, Answer>(
      name: string,
      request: Request,
      call: ModelCall<Request, Answer>,
      options?: ModelOptions<Answer>,
    ) => callModel({ step, open }, name, request, call, options),
    openCase: async (input: Parameters<JobHandle["openCase"]>[0]) =>
      watchHandle(await (handle as JobHandle).openCase(input), input.id, outcomes, { ...place, open }),
  };
  return new Proxy(handle, {
    get(target, name) {
      if (name in own && name in target) return own[name as keyof typeof own];
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

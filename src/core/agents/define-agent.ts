import type { Duration } from "../base/duration.ts";
import type { MaybePromise } from "../base/maybe-promise.ts";
import type { AgentMethodFieldInput } from "../models/agent-method-field.ts";
import type { CaseNode } from "../models/case-node.ts";
import type { ParameterInput } from "../models/parameter.ts";
import type { BudgetOptions } from "./budget.ts";
import type { ConcurrencyOptions, RateLimit } from "./concurrency.ts";
import type { FieldsInput, FieldValues, GivenFields } from "./fields-input.ts";
import type { AgentInstructions } from "./instructions.ts";
import type { IsolateOptions } from "./isolate-options.ts";
import type { RetentionOptions } from "./retention-policy.ts";
import type {
  ChatContext,
  CustomContext,
  HumanAnswerContext,
  JobStartContext,
  JobStatusContext,
  JobStopContext,
  StartableAgent,
} from "./run-context.ts";

/** How a method is declared. */
export interface MethodDefinition<F extends FieldsInput, C, R> {
  readonly name?: string;
  readonly description?: string;
  readonly fields?: F;
  /** Fixed arguments, shown to clients. */
  readonly params?: Record<string, unknown>;
  /** The nodes that its cases pass through, for display. */
  readonly nodes?: readonly (Pick<CaseNode, "name" | "type"> & Partial<CaseNode>)[];
  /** Time limit of a call, seconds. @default no limit */
  readonly timeout?: number;
  run(context: C): MaybePromise<R>;
}

/**
 * Declared parameters as a handler gets them: required parameters, and those with a declared value, always
 * have a value.
 */
export type ParameterValues<P extends readonly ParameterInput[]> = {
  readonly [One in P[number] as One["name"]]: One extends { is_required: true } | { value: string }
    ? string
    : string | undefined;
};

/** An agent's definition. */
export interface AgentDefinition<
  Start extends FieldsInput = FieldsInput,
  Chat extends FieldsInput = FieldsInput,
  Custom = Readonly<Record<string, FieldsInput>>,
  P extends readonly ParameterInput[] = readonly ParameterInput[],
  Result = unknown,
  Name extends string = string,
> {
  /** Display name; determines the slug and the id. */
  readonly name: Name;
  readonly version: string;
  readonly description?: string;
  readonly author?: string;
  readonly developer?: string;
  readonly maintainer?: string;
  readonly editor?: string;
  readonly tags?: readonly string[];
  /**
   * Texts with which people begin, for clients that offer them: `{order}` is what a person gives for the argument of that
   * name, which has a description. @default none
   */
  readonly prompts?: readonly {
    readonly name: string;
    readonly description: string;
    readonly arguments?: Readonly<Record<string, string>>;
    readonly text: string;
  }[];
  /** Documents for clients that read them, such as a policy: a text, or bytes. @default none */
  readonly resources?: readonly {
    readonly uri: string;
    readonly name: string;
    readonly description?: string;
    /** @default "text/plain", or "application/octet-stream" for bytes */
    readonly mimeType?: string;
    readonly content: string | Uint8Array;
  }[];
  readonly parameters?: P;
  /** What happens to a job that was running when the process ended. @default "resume" */
  readonly onInterruption?: "resume" | "restart" | "fail";
  /** Jobs of this agent that run at the same time. @default the service's limit */
  readonly maxConcurrentJobs?: number;
  /** Jobs of one key, such as a customer, that run at the same time. @default no limit of its own */
  readonly concurrency?: ConcurrencyOptions<FieldValues<Start>>;
  /** Jobs of this agent, or of one key, that start in any period, such as `{ limit: 100, period: "1h" }`. @default no limit */
  readonly rateLimit?: RateLimit<FieldValues<Start>>;
  /**
   * What its jobs may cost in a day or month, such as `{ month: 100 }`: at 80 % and at 100 % a warning is sent.
   * @default no budget
   */
  readonly budget?: BudgetOptions;
  /**
   * Limits of each of its jobs, such as `{ stop_on_error: false, max_cost: 5 }`: a start request may lower the numbers, and
   * decides otherwise about failed cases and warnings where it names them.
   * @default no limits; a failed case ends the job
   */
  readonly instructions?: AgentInstructions;
  /**
   * Runs its handlers in a process of its own, with limits on memory and time: an endless loop, an exit or a lack of
   * memory ends its job, and touches no other. @default false: in the service's process
   */
  readonly isolate?: boolean | IsolateOptions;
  /**
   * How long a job only waits (for a sleep to end, an answer, and so on) before it leaves memory, or `false` if its jobs
   * stay in memory. A suspended job is replayed when it resumes, so a wait of its handler that is not recorded starts
   * over. Jobs of agents with another `onInterruption` than "resume" always stay in memory.
   * @default the service's `suspendAfter`
   */
  readonly suspendAfter?: Duration | false;
  /** Whether its jobs are threads of a chat; `defineChat` sets it. @default false */
  readonly chats?: boolean;
  /** How long its jobs are kept after their end, by status. @default the service's retention */
  readonly retention?: RetentionOptions;
  readonly methods: {
    readonly job_start: MethodDefinition<
      Start,
      JobStartContext<FieldValues<Start>, ParameterValues<P>>,
      Result
    >;
    readonly job_stop?: MethodDefinition<FieldsInput, JobStopContext<ParameterValues<P>>, unknown>;
    readonly job_status?: MethodDefinition<FieldsInput, JobStatusContext<ParameterValues<P>>, unknown>;
    readonly human_answer?: MethodDefinition<FieldsInput, HumanAnswerContext<ParameterValues<P>>, unknown>;
    readonly chat?: MethodDefinition<Chat, ChatContext<FieldValues<Chat>, ParameterValues<P>>, unknown>;
    readonly custom?: {
      // With a constraint on `Custom`, TypeScript does not infer its inputs.
      readonly [Name in keyof Custom]: MethodDefinition<
        Custom[Name] & FieldsInput,
        CustomContext<FieldValues<Custom[Name]>, ParameterValues<P>>,
        unknown
      >;
    };
  };
}

/**
 * Defines an agent with inferred types.
 *
 * @example
 * const greeter = defineAgent({
 *   name: "Greeter",
 *   version: "1.0.0",
 *   methods: { job_start: { fields: v.object({ name: v.string() }), run: ({ fields }) => `Hello ${fields.name}` } },
 * });
 */
export function defineAgent<
  Start extends FieldsInput = readonly AgentMethodFieldInput[],
  Chat extends FieldsInput = readonly AgentMethodFieldInput[],
  Custom = Readonly<Record<string, FieldsInput>>,
  const P extends readonly ParameterInput[] = readonly [],
  Result = unknown,
  const Name extends string = string,
>(
  agent: AgentDefinition<Start, Chat, Custom, P, Result, Name>,
): AgentDefinition & StartableAgent<GivenFields<Start>, Result, Name> {
  return agent as unknown as AgentDefinition;
}

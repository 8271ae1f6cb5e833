import type * as v from "valibot";
import type { AgentMethodFieldInput } from "../models/agent-method-field.ts";
import type { CaseNode } from "../models/case-node.ts";
import type { ParameterInput } from "../models/parameter.ts";
import type { RetentionOptions } from "./retention-policy.ts";
import type {
  ChatContext,
  CustomContext,
  HumanAnswerContext,
  JobContextArgs,
  JobStatusContext,
  JobStopContext,
} from "./run-context.ts";

type MaybePromise<T> = T | Promise<T>;

/** A method's inputs: a valibot object schema, or a list of form fields. */
export type FieldsInput = v.ObjectSchema<v.ObjectEntries, undefined> | readonly AgentMethodFieldInput[];

/** The values that a handler gets for its inputs. */
export type FieldValues<F> =
  F extends v.ObjectSchema<v.ObjectEntries, undefined> ? v.InferOutput<F> : Record<string, unknown>;

/** How a method is declared. */
export interface MethodDefinition<F extends FieldsInput, C, R> {
  readonly name?: string;
  readonly description?: string;
  readonly fields?: F;
  /** Fixed arguments, shown to clients. */
  readonly params?: Record<string, unknown>;
  /** The nodes that its cases pass through, for display. */
  readonly nodes?: readonly (Pick<CaseNode, "name" | "type"> & Partial<CaseNode>)[];
  /** Seconds that a call may take. @default no limit */
  readonly timeout?: number;
  run(context: C): MaybePromise<R>;
}

/** What happens with unfinished jobs when the service starts again. */
export type InterruptionPolicy = "resume" | "restart" | "fail";

/** Result of a job: anything JSON; a `message` in it is shown. */
export type JobResult = unknown;

/** An agent as a developer writes it. */
export interface AgentDefinition<F extends FieldsInput = FieldsInput> {
  /** Shown name; gives the slug and the id. */
  readonly name: string;
  readonly version: string;
  readonly description?: string;
  readonly author?: string;
  readonly developer?: string;
  readonly maintainer?: string;
  readonly editor?: string;
  readonly tags?: readonly string[];
  readonly parameters?: readonly ParameterInput[];
  /** What becomes of a job that was running when the process ended. @default "resume" */
  readonly onInterruption?: InterruptionPolicy;
  /** Jobs of this agent that run at once. @default the service's limit */
  readonly maxConcurrentJobs?: number;
  /** How long its jobs are kept after their end, by status. @default the service's retention */
  readonly retention?: RetentionOptions;
  readonly methods: {
    readonly job_start: MethodDefinition<F, JobContextArgs<FieldValues<F>>, JobResult>;
    readonly job_stop?: MethodDefinition<FieldsInput, JobStopContext, unknown>;
    readonly job_status?: MethodDefinition<FieldsInput, JobStatusContext, unknown>;
    readonly human_answer?: MethodDefinition<FieldsInput, HumanAnswerContext, unknown>;
    readonly chat?: MethodDefinition<FieldsInput, ChatContext, unknown>;
    readonly custom?: Readonly<Record<string, MethodDefinition<FieldsInput, CustomContext, unknown>>>;
  };
}

/**
 * Types an agent.
 *
 * @example
 * const greeter = defineAgent({
 *   name: "Greeter",
 *   version: "1.0.0",
 *   methods: { job_start: { fields: v.object({ name: v.string() }), run: ({ fields }) => `Hello ${fields.name}` } },
 * });
 */
export function defineAgent<F extends FieldsInput = readonly AgentMethodFieldInput[]>(
  agent: AgentDefinition<F>,
): AgentDefinition {
  return agent as unknown as AgentDefinition;
}

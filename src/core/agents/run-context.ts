import type { Token } from "../base/container.ts";
import type { Duration } from "../base/duration.ts";
import type { Logger } from "../base/log.ts";
import type { MaybePromise } from "../base/maybe-promise.ts";
import type { Case } from "../models/case.ts";
import type { CaseNodeUpdateInput } from "../models/case-node-update.ts";
import type { Job } from "../models/job.ts";
import type { OnTimeout } from "../models/question.ts";
import type { TelemetryCategory, TelemetrySeverity, TelemetryType } from "../models/telemetry.ts";
import type { FieldsInput, FieldValues, GivenFields } from "./fields-input.ts";

/** What a step's function is told. */
export interface StepInfo {
  /** 1 at the first try; one more after each try that failed or that the end of the process cut short. */
  readonly attempt: number;
  /** The same at every try of this step: hand it to services that can tell a repeated request. */
  readonly idempotencyKey: string;
  /** Fires when the job is stopped or the step's time is up. */
  readonly signal: AbortSignal;
}

/** Names a call where its own name is not enough. */
export interface CallOptions {
  /**
   * What the call is found by in the record when the job is resumed, in place of its name: unique among the calls of
   * its kind that are made beside each other. @default its name
   */
  readonly key?: string;
}

export interface StepOptions extends CallOptions {
  /** Tries after the first. @default 0 */
  readonly retries?: number;
  /** Wait before the next try: the first one, doubled each time up to `max`. @default { initial: 1, max: 60 } in seconds */
  readonly backoff?: { readonly initial?: Duration; readonly max?: Duration; readonly factor?: number };
  /**
   * Whether to try again after this error, as far as `retries` go: answers at once. Errors of which it says no fail the
   * step. @default always, but after a `NonRetryableError`
   */
  readonly retryIf?: (error: unknown) => boolean;
  /** Time limit of one try. @default none */
  readonly timeout?: Duration;
  /** What the step costs, counted towards `max_cost`: the step is refused before it would pass it. */
  readonly cost?: number;
}

export type StepFunction<T> = (info: StepInfo) => MaybePromise<T>;

export interface AskOptions<F extends FieldsInput> extends CallOptions {
  /** What people read. In a question with a name it may change while it is open, like all that follows here. */
  readonly question: string;
  readonly fields: F;
  /** How long to wait for a person, or when to stop waiting. @default for ever */
  readonly deadline?: Duration | Date;
  /** @default "fail" */
  readonly onTimeout?: OnTimeout;
  /** The answer when nobody answered, with `onTimeout: "default"`. */
  readonly default?: GivenFields<F>;
}

/** A case as its agent sees it. */
export interface CaseHandle {
  readonly id: string;
  readonly ref: string;
  /** Runs `fn` once and records its result durably; run again, it answers from the record. */
  step<T>(name: string, fn: StepFunction<T>, options?: StepOptions): Promise<T>;
  /** Adds an entry to the case's history. */
  update(update: CaseNodeUpdateInput, options?: CallOptions): Promise<void>;
  /**
   * Waits for a person's answer: for days, across restarts. The question is found in the record by its name, so its text,
   * form, deadline and default may change in later code; without a name it is found by its text.
   */
  ask<F extends FieldsInput>(name: string, options: AskOptions<F>): Promise<FieldValues<F>>;
  ask<F extends FieldsInput>(options: AskOptions<F>): Promise<FieldValues<F>>;
  /** Ends the case as completed. */
  close(
    delivery?: Record<string, unknown>,
    options?: { readonly cost?: number; readonly name?: string },
  ): Promise<void>;
  /** Ends the case as failed; ends the job too, unless its instructions say `stop_on_error: false`. */
  fail(error: string | Error, delivery?: Record<string, unknown>): Promise<void>;
  /** The case as stored. */
  read(): Promise<Case>;
}

/** A job as its agent sees it. */
export interface JobHandle {
  readonly id: string;
  readonly context: Job["job_context"];
  step<T>(name: string, fn: StepFunction<T>, options?: StepOptions): Promise<T>;
  /** The case with this id, opened where it is not there yet. */
  openCase(input: {
    readonly id: string;
    readonly name: string;
    readonly description?: string;
  }): Promise<CaseHandle>;
  /**
   * Whether the job takes the new way of a change of the code: true for jobs that began with it, or had not come so far;
   * false for those whose record goes on without. The answer is recorded, and stays.
   */
  changed(name: string): boolean;
  /** Waits durably: a restart does not begin the wait anew. */
  sleep(duration: Duration, options?: CallOptions): Promise<void>;
  /** The job as stored. */
  read(): Promise<Job>;
}

/** Sends monitoring data; never throws, never waits. */
export type TelemetryFunction = (data: {
  type: TelemetryType;
  category?: TelemetryCategory;
  severity?: TelemetrySeverity;
  details: Record<string, unknown>;
}) => void;

/** Values by parameter name. */
export type ParameterMap = Readonly<Record<string, string | undefined>>;

/** What every handler of an agent gets. */
export interface HandlerContext<Parameters> {
  /** Decrypted values by parameter name. One that is not required and has no value is missing. */
  readonly parameters: Parameters;
  readonly log: Logger;
  readonly telemetry: TelemetryFunction;
  readonly signal: AbortSignal;
  /**
   * A part that a plugin provides, by its token; throws where no plugin of the service provides it. What it does is not
   * recorded: call it inside a step where it must not be done again when the job is resumed.
   */
  get<T>(token: Token<T>): T;
}

/** What `job_start` gets. */
export interface JobStartContext<Fields = Record<string, unknown>, Parameters = ParameterMap>
  extends HandlerContext<Parameters> {
  readonly job: JobHandle;
  readonly fields: Fields;
}

/** What `job_stop` gets, after the job's signal has fired. */
export interface JobStopContext<Parameters = ParameterMap> extends HandlerContext<Parameters> {
  readonly job: Job;
}

/** What `job_status` gets. */
export interface JobStatusContext<Parameters = ParameterMap> extends HandlerContext<Parameters> {
  readonly job: Job | undefined;
  readonly params: Readonly<Record<string, unknown>>;
}

/** What `human_answer` gets, after an answer was accepted and before the run goes on. */
export interface HumanAnswerContext<Parameters = ParameterMap> extends HandlerContext<Parameters> {
  readonly job: Job;
  readonly case: Case;
  readonly answer: Readonly<Record<string, unknown>>;
  readonly message: string | null;
}

/** What `chat` gets. */
export interface ChatContext<Fields = Record<string, unknown>, Parameters = ParameterMap>
  extends HandlerContext<Parameters> {
  readonly params: Readonly<Record<string, unknown>>;
  /** The request's params, checked by the method's `fields`; empty where it has none. */
  readonly fields: Fields;
}

/** What a custom method gets. */
export interface CustomContext<Fields = Record<string, unknown>, Parameters = ParameterMap>
  extends HandlerContext<Parameters> {
  readonly job: Job | undefined;
  readonly params: Readonly<Record<string, unknown>>;
  readonly fields: Fields;
}

import type { Token } from "../base/container.ts";
import type { Duration } from "../base/duration.ts";
import type { Logger } from "../base/log.ts";
import type { MaybePromise } from "../base/maybe-promise.ts";
import type { Case } from "../models/case.ts";
import type { CaseNodeUpdateInput } from "../models/case-node-update.ts";
import type { FileValue } from "../models/file.ts";
import type { Job } from "../models/job.ts";
import type { JobInstructions } from "../models/job-instructions.ts";
import type { StepKind } from "../models/model-use.ts";
import type { OnTimeout } from "../models/question.ts";
import type { TelemetryCategory, TelemetrySeverity, TelemetryType } from "../models/telemetry.ts";
import type { FieldsInput, FieldValues, GivenFields } from "./fields-input.ts";
import type { FileData, NewFileOptions, OpenFile } from "./file-content.ts";
import type { ModelCost } from "./model-prices.ts";
import type { StepReport } from "./step-report.ts";

/** Argument of a step's function. */
export interface StepInfo {
  /**
   * 1 at the first attempt; one more after each attempt that failed or that was interrupted by the end of the
   * process.
   */
  readonly attempt: number;
  /** The same at every attempt of this step: send it to services that recognize repeated requests. */
  readonly idempotencyKey: string;
  /** Fires when the job is stopped or the step's time limit is reached. */
  readonly signal: AbortSignal;
  /**
   * Reports what this attempt costs and used, also if it fails then: `report({ cost: 0.01 })`. A later report replaces
   * what an earlier one said of the same.
   */
  readonly report: (report: StepReport) => void;
  /**
   * Sends a chunk of the step's result, such as a token, to those who follow the job now: text, or any JSON value. It is
   * not stored, and what a failed attempt has emitted is reset by the next one. Does not wait; throws what JSON cannot
   * represent; does nothing once the attempt is over.
   *
   * @example
   * await job.step("draft", async ({ emit }) => {
   *   let text = "";
   *   for await (const token of openStream(prompt)) {
   *     emit(token);
   *     text += token;
   *   }
   *   return text;
   * });
   */
  readonly emit: (chunk: unknown) => void;
  /**
   * Makes a file, which the job has once this step is recorded: return it, anywhere in the result. Its content is stored
   * before it resolves.
   *
   * @example
   * const report = await job.step("report", async ({ file }) => file("report.csv", toCsv(rows)));
   */
  readonly file: (name: string, data: FileData, options?: NewFileOptions) => Promise<FileValue>;
  /**
   * Headers by which another service continues the trace of the job, below this step: `traceparent` and, where the caller sent it, `tracestate` of W3C Trace Context.
   * None where the service makes no spans.
   *
   * @example
   * await job.step("rate", async ({ traceHeaders }) => fetch(url, { headers: await traceHeaders() }));
   */
  readonly traceHeaders: () => Promise<Readonly<Record<string, string>>>;
}

/** Identifies a call if its name is not enough. */
export interface CallOptions {
  /**
   * Identifies the call in the record when the job is resumed, instead of its name: unique among the calls of
   * its kind that are made concurrently. @default its name
   */
  readonly key?: string;
}

export interface StepOptions extends CallOptions {
  /** Attempts after the first. @default 0 */
  readonly retries?: number;
  /**
   * Delay before the next attempt: `initial`, doubled each time up to `max`. @default { initial: 1, max: 60 }
   * in seconds
   */
  readonly backoff?: { readonly initial?: Duration; readonly max?: Duration; readonly factor?: number };
  /**
   * Whether to retry after this error, within `retries`; synchronous. Errors for which it returns false fail the
   * step. @default always, but after a `NonRetryableError`
   */
  readonly retryIf?: (error: unknown) => boolean;
  /** Time limit of one attempt. @default none */
  readonly timeout?: Duration;
  /**
   * Cost of each attempt, counted toward `max_cost`: a step that would exceed it is refused. What an attempt reports
   * replaces it.
   */
  readonly cost?: number;
  /** What kind of work it does: people see it, and its span says it. */
  readonly kind?: StepKind;
  /** What the step is given, for people to see: recorded with its result, in its beginning where it is long. */
  readonly input?: unknown;
}

/** Sends a request to a model and resolves with its answer. */
export type ModelCall<Request, Answer> = (request: Request, info: StepInfo) => MaybePromise<Answer>;

export interface ModelOptions<Answer = unknown> extends Omit<StepOptions, "cost" | "kind" | "input"> {
  /** The model that is asked. @default the `model` of the request */
  readonly model?: string;
  /** Such as `openai`. */
  readonly provider?: string;
  /**
   * What the tokens of a call cost: `prices({ … })`, or a function of your own. `undefined` if that is not known. @default
   * list prices of some models
   */
  readonly cost?: ModelCost;
  /**
   * What the call may cost, counted until its cost is known, and for an attempt that fails without a report.
   * @default by the length of the request and its `max_tokens`
   */
  readonly estimate?: number;
  /** What an answer says of itself. @default as OpenAI, Anthropic and the AI SDK write it */
  readonly read?: (answer: Answer) => StepReport;
}

export type StepFunction<T> = (info: StepInfo) => MaybePromise<T>;

export interface AskOptions<F extends FieldsInput> extends CallOptions {
  /**
   * The text that people see. In a question with a name it may change while the question is open, like all
   * options below.
   */
  readonly question: string;
  readonly fields: F;
  /**
   * Files of the job that are shown beside the question, a PDF at its `page`. @default those of the case
   *
   * @example
   * await item.ask("clause", { question, fields, files: [{ ...fields.contract, page: 4 }] });
   */
  readonly files?: readonly (FileValue & { readonly page?: number })[];
  /** How long to wait for a person, or when to stop waiting. @default indefinitely */
  readonly deadline?: Duration | Date;
  /** @default "fail" */
  readonly onTimeout?: OnTimeout;
  /** The answer if nobody answers, with `onTimeout: "default"`. */
  readonly default?: GivenFields<F>;
  /** Name of the person or role that is to answer: shown, and a filter of the inbox. Anyone may answer. */
  readonly assignTo?: string;
  /** How long after it was asked people are reminded of it, once. @default never */
  readonly remind?: Duration;
  /** How long after it was asked it is assigned to somebody else, once. @default never */
  readonly escalate?: { readonly after: Duration; readonly to: string };
  /**
   * How many people must give the same answer, 1 to 10: they are distinguished by their names. A different answer takes the
   * place of those before it. @default 1
   */
  readonly approvers?: number;
}

/** A case as its agent sees it. */
export interface CaseHandle {
  readonly id: string;
  readonly ref: string;
  /** Runs `fn` once and records its result durably; on replay it returns the recorded result. */
  step<T>(name: string, fn: StepFunction<T>, options?: StepOptions): Promise<T>;
  /**
   * A step of kind `model`: records the request, the answer, its tokens and what it cost. `call` sends the request.
   *
   * @example
   * const answer = await item.model("triage", { model: "gpt-5-mini", messages }, (request, { signal }) =>
   *   client.chat.completions.create(request, { signal }),
   * );
   */
  model<Request, Answer>(
    name: string,
    request: Request,
    call: ModelCall<Request, Answer>,
    options?: ModelOptions<Answer>,
  ): Promise<Answer>;
  /** Adds an entry to the case's history. */
  update(update: CaseNodeUpdateInput, options?: CallOptions): Promise<void>;
  /**
   * Waits for a person's answer: for days, across restarts. The question is identified in the record by its
   * name, so its text, form, deadline and default may change in later code; without a name it is identified
   * by its text.
   */
  ask<F extends FieldsInput>(name: string, options: AskOptions<F>): Promise<FieldValues<F>>;
  ask<F extends FieldsInput>(options: AskOptions<F>): Promise<FieldValues<F>>;
  /**
   * Says that a file is what people are to see of the job or case, such as a report: pages list it first, with its
   * title.
   *
   * @example
   * const report = await item.step("report", ({ file }) => file("report.pdf", toPdf(rows)));
   * await item.artifact("report", report, { title: "Findings" });
   */
  artifact(
    name: string,
    file: FileValue,
    options?: { readonly title?: string } & CallOptions,
  ): Promise<FileValue>;
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

/** An agent that a job can start: its definition, which knows the types of its fields and its result. */
export interface StartableAgent<Given = unknown, Result = unknown, Name extends string = string> {
  readonly name: string;
  /** Only for types: never set. */
  readonly "~types"?: { readonly given: Given; readonly result: Result; readonly name: Name } | undefined;
}

export interface StartOptions extends CallOptions {
  /** The child's name. @default its agent's name */
  readonly name?: string;
  /** Whether it continues when its parent fails or is cancelled. @default false: it is stopped */
  readonly detached?: boolean;
  /** Limits of the child. @default none; those of the parent do not count */
  readonly instructions?: Partial<JobInstructions>;
  /** Whether it gets the parameters that were sent with its parent. @default false */
  readonly passParameters?: boolean;
}

/** The fields and options of a start; fields without required values may be omitted. */
export type StartArguments<Agent extends StartableAgent, Options = StartOptions> =
  Agent extends StartableAgent<infer Given>
    ? unknown extends Given
      ? [fields?: Readonly<Record<string, unknown>>, options?: Options]
      : Record<never, never> extends Given
        ? [fields?: Given, options?: Options]
        : [fields: Given, options?: Options]
    : never;

/** What a job of an agent returns. */
export type ResultOf<Agent extends StartableAgent> =
  Agent extends StartableAgent<unknown, infer Result> ? Result : never;

/** A job that another one has started. */
export interface ChildHandle<Result = unknown> {
  /** Its job id. */
  readonly id: string;
  /**
   * Waits durably for its end, without holding a slot: gives its result, or rejects with a `ChildFailedError` if it
   * failed or was cancelled. What it gave once stays, also if the child is retried.
   */
  result(): Promise<Result>;
  /**
   * Stops it, once, whatever is resumed, and resolves when that is stored. `result()` resolves or rejects when the child
   * has ended. A child that has ended, or was removed, stays as it is.
   */
  stop(): Promise<void>;
}

export interface WaitOptions extends CallOptions {
  /** Values that fields of the event's data must have, by name or dotted path, compared as JSON. @default any */
  readonly where?: Readonly<Record<string, unknown>>;
  /** How long to wait, or when to stop waiting. @default indefinitely */
  readonly deadline?: Duration | Date;
  /** Events that were received since then count. @default since the job was created */
  readonly since?: Date;
}

/** An event that was sent to the service. */
export interface ReceivedEvent<Data = Record<string, unknown>> {
  /** The sender's id, or one that the service made. */
  readonly id: string;
  readonly name: string;
  /** When it was stored, ISO 8601. */
  readonly at: string;
  readonly data: Data;
}

/** A job as its agent sees it. */
export interface JobHandle extends Pick<CaseHandle, "id" | "step" | "model" | "artifact"> {
  readonly context: Job["job_context"];
  /** The case with this id; opens it if it does not exist yet. */
  openCase(input: {
    readonly id: string;
    readonly name: string;
    readonly description?: string;
  }): Promise<CaseHandle>;
  /**
   * Whether the job takes the new way of a change of the code: true for jobs that began with it, or had not come so far;
   * false for those whose record continues without it. The result is recorded and does not change.
   */
  changed(name: string): boolean;
  /**
   * Adds tags, by which lists find the job: 20 at most, together with those that it has.
   *
   * @example
   * await job.tag("customer:acme", `order:${order.id}`);
   */
  tag(...tags: readonly string[]): Promise<void>;
  /** Waits durably: a restart does not restart the wait. */
  sleep(duration: Duration, options?: CallOptions): Promise<void>;
  /**
   * Starts a job of another agent as a child of this one, once, whatever is resumed. Rejects with a
   * `ChildFailedError` if its fields are not valid or the service has no such agent.
   *
   * @example
   * const child = await job.start(auditor, { url });
   * const report = await child.result();
   */
  start<Agent extends StartableAgent>(
    agent: Agent,
    ...given: StartArguments<Agent>
  ): Promise<ChildHandle<ResultOf<Agent>>>;
  /** The same by the agent's slug. */
  start<Result = unknown>(
    agent: string,
    fields?: Readonly<Record<string, unknown>>,
    options?: StartOptions,
  ): Promise<ChildHandle<Result>>;
  /**
   * Waits durably for an event of this name, sent with `POST /events/{name}`: the first that fits, received since the
   * job was created or later, that no other `waitFor` of this job was given. Rejects with an `EventTimeoutError` at the
   * deadline.
   *
   * @example
   * const { data } = await job.waitFor("payment", { where: { order: id }, deadline: "3d" });
   */
  waitFor<Data = Record<string, unknown>>(name: string, options?: WaitOptions): Promise<ReceivedEvent<Data>>;
  /** Makes a file of the job, in a step of its own; in a step's function, use the `file` that it is given. */
  file(name: string, data: FileData, options?: NewFileOptions & CallOptions): Promise<FileValue>;
  /** A file of this job, such as one in its fields, with what reads its content. The content is not recorded. */
  open(file: FileValue): OpenFile;
  /** The job as stored. */
  read(): Promise<Job>;
}

/** Values by parameter name. */
export type ParameterMap = Readonly<Record<string, string | undefined>>;

/** What every handler of an agent gets. */
export interface HandlerContext<Parameters> {
  /** Decrypted values by parameter name. One that is not required and has no value is missing. */
  readonly parameters: Parameters;
  readonly log: Logger;
  /** Sends monitoring data; never throws, never waits. */
  readonly telemetry: (data: {
    type: TelemetryType;
    category?: TelemetryCategory;
    severity?: TelemetrySeverity;
    details: Record<string, unknown>;
  }) => void;
  readonly signal: AbortSignal;
  /**
   * A part that a plugin provides, by its token; throws if no plugin of the service provides it. Its calls
   * are not recorded: call it inside a step if they must not be repeated when the job is resumed.
   */
  get<T>(token: Token<T>): T;
}

/** Argument of `job_start`. */
export interface JobStartContext<Fields = Record<string, unknown>, Parameters = ParameterMap>
  extends HandlerContext<Parameters> {
  readonly job: JobHandle;
  readonly fields: Fields;
}

/** Argument of `job_stop`, called after the job's signal has fired. */
export interface JobStopContext<Parameters = ParameterMap> extends HandlerContext<Parameters> {
  readonly job: Job;
}

/** Argument of `job_status`. */
export interface JobStatusContext<Parameters = ParameterMap> extends HandlerContext<Parameters> {
  readonly job: Job | undefined;
  readonly params: Readonly<Record<string, unknown>>;
}

/** Argument of `human_answer`, called after an answer was accepted and before the run continues. */
export interface HumanAnswerContext<Parameters = ParameterMap> extends HandlerContext<Parameters> {
  readonly job: Job;
  readonly case: Case;
  readonly answer: Readonly<Record<string, unknown>>;
  readonly message: string | null;
}

/** Argument of `chat`. */
export interface ChatContext<Fields = Record<string, unknown>, Parameters = ParameterMap>
  extends HandlerContext<Parameters> {
  readonly params: Readonly<Record<string, unknown>>;
  /** The request's params, checked by the method's `fields`; empty if it has none. */
  readonly fields: Fields;
}

/** Argument of a custom method. */
export interface CustomContext<Fields = Record<string, unknown>, Parameters = ParameterMap>
  extends HandlerContext<Parameters> {
  readonly job: Job | undefined;
  readonly params: Readonly<Record<string, unknown>>;
  readonly fields: Fields;
}

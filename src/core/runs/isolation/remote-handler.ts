import { AsyncLocalStorage } from "node:async_hooks";
import type { AgentDefinition } from "../../agents/define-agent.ts";
import { describeProblems, type Fields, fieldsOf, readFields, unknownInFields } from "../../agents/fields.ts";
import type { FieldsInput } from "../../agents/fields-input.ts";
import { type FileData, type NewFileOptions, toParts } from "../../agents/file-content.ts";
import { toJsonValue } from "../../agents/json-value.ts";
import { assertStepOptions } from "../../agents/known-options.ts";
import { toRecordedInput } from "../../agents/recorded-input.ts";
import type { AskOptions, JobHandle, StepFunction, StepInfo, StepOptions } from "../../agents/run-context.ts";
import { addReport, type StepReport } from "../../agents/step-report.ts";
import { messageOf } from "../../base/error-text.ts";
import type { Logger } from "../../base/log.ts";
import type { FileValue } from "../../models/file.ts";
import { mayBeLeft } from "../replay/call.ts";
import { causes } from "../replay/causes.ts";
import type { GivenStep } from "../replay/step.ts";
import { ByteStreams } from "./byte-streams.ts";
import type { CallTarget, Effect, FromAgent, RemoteCall, Reported, ToAgent } from "./messages.ts";
import { type HandlePort, remoteJob } from "./remote-handles.ts";
import { toPlain } from "./to-plain.ts";
import { fromWire, toWire, type WireError } from "./wire-error.ts";

type Message<T extends ToAgent["type"]> = Extract<ToAgent, { type: T }>;

interface Pending {
  resolve(value: unknown): void;
  reject(error: Error): void;
  /** Makes of what was recorded what the handler gets. */
  readonly convert?: ((value: unknown) => unknown) | undefined;
  /** Whether the handler made the call outside of any turn. */
  readonly isOutside: boolean;
}

interface CallParts {
  readonly on: CallTarget;
  readonly convert?: ((value: unknown) => unknown) | undefined;
  /** Whether it is a step that may begin without asking, where the service has let such steps begin. */
  readonly mayBegin?: boolean;
}

interface KnownStep {
  readonly name: string;
  readonly fn: StepFunction<unknown>;
  /** Calls a function in the async context of the handler that made the step: libraries keep traces there. */
  readonly inContext: <T>(fn: () => T) => T;
  readonly retryIf: StepOptions["retryIf"];
  /** The last try, and what it has given. */
  attempt?: number | undefined;
  result?: unknown;
  /** What that try has reported. */
  report?: StepReport | undefined;
  /** Ends the signal of that try, where its function may have it. */
  controller?: AbortController;
}

/** The step in whose function something is done. */
const INSIDE = new AsyncLocalStorage<number>();
const SETTLED = Promise.resolve();

/**
 * Runs the handler of one job in its agent's process. Each call of the job's handle is sent to the service,
 * which records it and sends its result; what the handler does after that, without waiting for anything else,
 * is reported as one turn.
 */
export class RemoteHandler implements HandlePort {
  readonly #agent: AgentDefinition;
  readonly #send: (message: Reported) => void;
  readonly #controller = new AbortController();
  readonly #pending = new Map<number, Pending>();
  readonly #steps = new Map<number, KnownStep>();
  readonly #questions = new Map<number, Fields>();
  readonly #settles: (Message<"settle"> | Message<"start">)[] = [];
  #isSettling = false;
  /** What `job.changed` answered, by name. */
  readonly #changes = new Map<string, boolean>();
  /** Whether all recorded calls were made when the current turn began. */
  #isBehindRecord = false;
  /** Contents of files, by numbers that are counted here; and steps that wait for a file or for headers. */
  readonly #streams: ByteStreams;
  readonly #asked = new Map<number, Pick<Pending, "resolve" | "reject">>();
  #contents = 0;
  #calls = 0;
  #seen = 0;
  /** Whether a step that is called now may begin without asking, and the ones that are to begin after the turn. */
  #mayBegin = false;
  #ahead: number[] = [];
  /** Calls that were made outside of any turn and have not ended. */
  #outsideOpen = 0;
  /** What was done in the current turn, or without one. */
  #effects: Effect[] | undefined;
  #outside: { readonly effects: Effect[]; readonly cause: number } | undefined;

  /** For one of the runs of its process. */
  constructor(agent: AgentDefinition, send: (message: FromAgent) => void, of: number) {
    this.#agent = agent;
    this.#send = (message) => send({ ...message, of });
    this.#streams = new ByteStreams(this.#send);
    causes.watch();
  }

  take(message: ToAgent): void {
    switch (message.type) {
      case "start":
      case "settle":
        this.#settles.push(message);
        if (!this.#isSettling) void this.#settleAll();
        return;
      case "run":
        void this.#runStep(message.id, message);
        return;
      case "abortStep":
        this.#steps.get(message.id)?.controller?.abort(fromWire(message.error));
        return;
      case "abort":
        this.#controller.abort(fromWire(message.error));
        return;
      case "check":
        void this.#check(message);
        return;
      case "made": {
        this.#streams.take({ type: "drop", stream: message.stream });
        this.#answerStep(message.stream, message.file, message.error);
        return;
      }
      case "traced":
        this.#answerStep(message.ask, message.value, message.error);
        return;
      case "pull":
      case "part":
      case "drop":
        this.#streams.take(message);
        return;
      default:
        return;
    }
  }

  /** Makes a call; it resolves when the service has sent its result. */
  call<T>(
    call: RemoteCall,
    { on, convert, mayBegin = false }: CallParts,
    prepare?: (id: number) => void,
  ): Promise<T> {
    const id = ++this.#calls;
    prepare?.(id);
    const isOutside = this.#effects === undefined;
    if (isOutside) this.#outsideOpen++;
    const ended = new Promise<unknown>((resolve, reject) => {
      this.#pending.set(id, { resolve, reject, convert, isOutside });
    });
    const inside = INSIDE.getStore();
    const isBegun = mayBegin && this.#mayBegin && inside === undefined && this.#outsideOpen === 0;
    if (isBegun) this.#ahead.push(id);
    this.#did({ type: "call", id, on, inside, ...(isBegun && { isBegun }), call });
    return mayBeLeft(ended as Promise<T>);
  }

  step<T>({ name, fn, options }: GivenStep<T>, on: CallTarget): Promise<T> {
    try {
      // A step that may begin here runs before the service sees its options.
      assertStepOptions(name, options);
    } catch (error) {
      return mayBeLeft(Promise.reject(error));
    }
    const { retryIf, input, ...plain } = options;
    const told = {
      ...plain,
      ...(retryIf && { retryIf: true }),
      ...(input !== undefined && { input: toRecordedInput(input) }),
    };
    return this.call<T>(
      { op: "step", name, options: told },
      { on, mayBegin: needsNothing(name, fn, options) },
      (id) => {
        this.#steps.set(id, { name, fn, retryIf, inContext: AsyncLocalStorage.snapshot() });
      },
    );
  }

  ask(name: string | undefined, options: AskOptions<FieldsInput>, on: CallTarget): Promise<never> {
    const fields = readFields(options.fields);
    const unknown = unknownInFields(options.fields);
    const { deadline, ...rest } = options;
    const plain = { ...rest, fields: fields.list, ...(!(deadline instanceof Date) && { deadline }) };
    const convert = async (answer: unknown) => {
      const checked = await fields.check(answer as Record<string, unknown>);
      if (checked.ok) return checked.values;
      throw new TypeError(
        `The answer to "${options.question}" no longer matches its fields: ${Object.keys(checked.problems).join(", ")}`,
      );
    };
    const until = deadline instanceof Date ? deadline.toISOString() : undefined;
    return this.call(
      {
        op: "ask",
        ...(name !== undefined && { name }),
        options: plain as Record<string, unknown>,
        ...(until !== undefined && { until }),
        // Only the service knows whether the question is a new one.
        ...(unknown !== undefined && { unknown }),
      },
      { on, convert },
      (id) => this.#questions.set(id, fields),
    );
  }

  read(file: FileValue): AsyncIterable<Uint8Array> {
    const stream = ++this.#contents;
    this.#send({ type: "openFile", stream, file });
    return this.#streams.read(stream);
  }

  /** Has the service store what an attempt of a step makes. */
  #makeFile(
    { id, attempt, step }: Pick<Message<"run">, "id" | "attempt"> & { readonly step: string },
    { name, data, type }: { readonly name: string; readonly data: FileData } & NewFileOptions,
  ): Promise<FileValue> {
    const stream = ++this.#contents;
    this.#streams.offer(stream, () => toParts(data));
    return new Promise((resolve, reject) => {
      this.#asked.set(stream, { resolve: resolve as Pending["resolve"], reject });
      this.#send({ type: "makeFile", id, attempt, step, stream, name, mediaType: type });
    });
  }

  #answerStep(ask: number, value: unknown, error: WireError | undefined): void {
    const asked = this.#asked.get(ask);
    this.#asked.delete(ask);
    if (error) asked?.reject(fromWire(error));
    else asked?.resolve(value);
  }

  /**
   * Whether a job takes the new way of a change. Where the record was not given back when the turn began, calls of this turn
   * may be the rest of it, which only the service knows: where this answer is wrong, it resumes the job in a new process.
   */
  changed(name: string): boolean {
    const known = this.#changes.get(name);
    if (known !== undefined) return known;
    const is = this.#isBehindRecord;
    this.#changes.set(name, is);
    this.#did({ type: "changed", name, is });
    return is;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  readonly log: Logger = this.#logger([]);

  #logger(bound: readonly Record<string, unknown>[]): Logger {
    const line =
      (level: "debug" | "info" | "warn" | "error") =>
      (message: string, fields?: Record<string, unknown>): void =>
        this.#did({
          type: "log",
          level,
          args: [message, toPlain({ ...Object.assign({}, ...bound), ...fields })],
        });
    return {
      debug: line("debug"),
      info: line("info"),
      warn: line("warn"),
      error: line("error"),
      with: (fields) => this.#logger([...bound, fields]),
    };
  }

  /** What the handler did is reported when it waits for something. */
  #did(effect: Effect): void {
    if (this.#effects) {
      // What follows from it is not known here.
      this.#mayBegin &&= effect.type === "log" || effect.type === "telemetry" || isBegun(effect);
      this.#effects.push(effect);
      return;
    }
    if (this.#outside) {
      this.#outside.effects.push(effect);
      return;
    }
    const outside = { effects: [effect], cause: causes.current };
    this.#outside = outside;
    const seen = this.#seen;
    queueMicrotask(() => {
      this.#outside = undefined;
      this.#send({ type: "effects", seen, cause: outside.cause, effects: outside.effects });
    });
  }

  async #settleAll(): Promise<void> {
    this.#isSettling = true;
    for (let next = this.#settles.shift(); next; next = this.#settles.shift()) await this.#settle(next);
    this.#isSettling = false;
  }

  /** Gives the handler the result of a call, and reports to the service what it did then. */
  async #settle(message: Message<"settle"> | Message<"start">): Promise<void> {
    const begin = message.type === "start" ? () => this.#begin(message) : await this.#toEnd(message);
    this.#seen = message.seq;
    this.#isBehindRecord ||= message.isBehindRecord;
    const { turn } = message;
    const effects: Effect[] = [];
    if (turn !== undefined) this.#effects = effects;
    this.#mayBegin = message.mayBegin;
    if (turn === undefined) begin();
    else causes.during(turn, begin);
    if (turn !== undefined && message.type === "start") causes.enter(turn);
    // Microtasks run until there are none; only then comes the next tick.
    await new Promise<void>((resolve) => void SETTLED.then(() => process.nextTick(resolve)));
    this.#effects = undefined;
    this.#mayBegin = false;
    const ahead = this.#ahead;
    if (ahead.length > 0) this.#ahead = [];
    this.#send({ type: "effects", did: message.seq, effects });
    // Should the process end with one of them, the service knows of it.
    for (const id of ahead) void this.#runStep(id);
  }

  async #toEnd({ id, value: sent, isOwn, error }: Message<"settle">): Promise<() => void> {
    const pending = this.#pending.get(id);
    const value = isOwn ? this.#steps.get(id)!.result : sent;
    if (pending?.isOutside) this.#outsideOpen--;
    this.#pending.delete(id);
    this.#steps.delete(id);
    this.#questions.delete(id);
    if (!pending) return () => {};
    if (error) return () => pending.reject(fromWire(error));
    if (!pending.convert) return () => pending.resolve(value);
    try {
      const converted = await pending.convert(value);
      return () => pending.resolve(converted);
    } catch (problem) {
      return () => pending.reject(problem as Error);
    }
  }

  #begin({ job, fields, parameters, changes }: Message<"start">): void {
    for (const [name, is] of changes) this.#changes.set(name, is);
    const method = this.#agent.methods.job_start;
    const run = async (): Promise<unknown> => {
      const checking = fieldsOf(method).check(fields);
      const checked = checking instanceof Promise ? await checking : checking;
      if (!checked.ok) {
        throw new Error(`The job's fields no longer match the agent: ${describeProblems(checked.problems)}`);
      }
      return method.run({
        job: remoteJob(this, job as Pick<JobHandle, "id" | "context">),
        fields: checked.values,
        parameters,
        log: this.log,
        signal: this.signal,
        ...partsOf(this),
      } as never);
    };
    run().then(
      (value) => this.#ended(value),
      (error: unknown) => this.#did({ type: "ended", error: toWire(error) }),
    );
  }

  telemetry(data: unknown): void {
    this.#did({ type: "telemetry", data: toPlain(data) });
  }

  #ended(value: unknown): void {
    try {
      this.#did({ type: "ended", value: toJsonValue(value, "The job's result") });
    } catch (error) {
      this.#did({ type: "ended", error: toWire(error) });
    }
  }

  /** Without a message where the step has started by itself: its function takes nothing. */
  async #runStep(id: number, message?: Message<"run">): Promise<void> {
    const step = this.#steps.get(id)!;
    const { name, fn, retryIf, inContext } = step;
    const attempt = message?.attempt;
    step.attempt = attempt;
    step.report = undefined;
    const reported = () => (step.attempt === attempt && step.report ? { report: step.report } : {});
    try {
      const info = message && this.#infoOf(message, step);
      const value = await inContext(() => INSIDE.run(id, async () => fn(info!)));
      try {
        const result = toJsonValue(value, `The result of step "${name}"`);
        this.#send({ type: "ran", id, attempt, value: result, ...reported() });
        if (step.attempt === attempt) step.result = result;
      } catch (error) {
        const problem = toWire(new TypeError(messageOf(error)));
        this.#send({ type: "ran", id, attempt, error: problem, isUnrecordable: true, ...reported() });
      }
    } catch (error) {
      const mayRetry = retryIf?.(error);
      this.#send({
        type: "ran",
        id,
        attempt,
        error: toWire(error),
        ...(mayRetry !== undefined && { mayRetry }),
        ...reported(),
      });
    }
  }

  #infoOf({ id, attempt, idempotencyKey }: Message<"run">, step: KnownStep): StepInfo {
    const own = new AbortController();
    step.controller = own;
    return {
      attempt,
      idempotencyKey,
      signal: AbortSignal.any([this.signal, own.signal]),
      report: (report) => {
        addReport(undefined, report);
        if (step.attempt !== attempt) return;
        const usage = report.usage && { ...step.report?.usage, ...report.usage };
        step.report = { ...step.report, ...report, ...(usage && { usage }) };
      },
      file: (name, data, options) =>
        this.#makeFile({ id, attempt, step: step.name }, { name, data, ...options }),
      traceHeaders: () =>
        new Promise((resolve, reject) => {
          const ask = ++this.#contents;
          this.#asked.set(ask, { resolve: resolve as Pending["resolve"], reject });
          this.#send({ type: "trace", id, ask });
        }),
      emit: (value) => {
        // The attempt is over.
        if (step.attempt !== attempt) return;
        const chunk =
          typeof value === "string" ? value : toJsonValue(value, `A chunk of step "${step.name}"`);
        this.#send({ type: "emitted", id, attempt, chunk });
      },
    };
  }

  async #check({ ask, check, answer }: Message<"check">): Promise<void> {
    try {
      const verdict = await this.#questions.get(ask)!.check(answer);
      // What a schema makes of an answer may be nothing that JSON can keep: it is made again here.
      this.#send({ type: "checked", check, verdict: verdict.ok ? { ...verdict, values: answer } : verdict });
    } catch (error) {
      this.#send({ type: "checked", check, error: toWire(error) });
    }
  }
}

function isBegun(effect: Effect): boolean {
  return effect.type === "call" && effect.isBegun === true;
}

/** Functions that cannot see what they are called with. */
const TAKES_NOTHING = /^(?:async\s*)?\(\s*\)\s*=>/;

/** Whether a step's first try needs nothing of the service, which would refuse none of these options. */
function needsNothing(name: string, fn: unknown, options: StepOptions): boolean {
  const { key, cost, timeout, backoff, kind } = options;
  if (typeof name !== "string" || (key !== undefined && typeof key !== "string")) return false;
  if (kind !== undefined || cost !== undefined || timeout !== undefined || backoff !== undefined)
    return false;
  return typeof fn === "function" && TAKES_NOTHING.test(Function.prototype.toString.call(fn));
}

/** Parts of plugins live in the service's process. */
function partsOf(handler: RemoteHandler) {
  return {
    telemetry: (data: unknown) => handler.telemetry(data),
    get: (): never => {
      throw new Error(
        "An isolated agent has no parts of plugins: they are in the service's process. Have an agent without isolate do what needs them, as a child (job.start), or call the service's API",
      );
    },
  };
}

import { asInput, type CheckedFields, type Fields, hasFiles, readFields } from "../../agents/fields.ts";
import type { FieldsInput } from "../../agents/fields-input.ts";
import type { AskOptions, CaseHandle, ChildHandle, StepInfo, StepOptions } from "../../agents/run-context.ts";
import type { MaybePromise } from "../../base/maybe-promise.ts";
import { mayBeLeft } from "../replay/call.ts";
import type { RunCase } from "../replay/case-handle.ts";
import type { OpenedContext } from "../replay/handler-context.ts";
import type { RunJob } from "../replay/job-handle.ts";
import { UnrecordableError } from "../replay/retries.ts";
import type { Run } from "../replay/run.ts";
import type { StepUnderWay } from "../replay/step-under-way.ts";
import { type AgentProcess, ProcessEndedError } from "./agent-process.ts";
import type { AgentProcesses } from "./agent-processes.ts";
import { ByteStreams } from "./byte-streams.ts";
import { callMethod, settle, type Waiter } from "./call-method.ts";
import type { CallTarget, Effect, FromAgent, RemoteCall, ToAgent } from "./messages.ts";
import { fromSent, PASSED } from "./passed-calls.ts";
import { fromWire, toWire } from "./wire-error.ts";

export interface IsolatedRunParts {
  readonly run: Run;
  readonly agent: string;
  readonly process: AgentProcess;
  readonly processes: AgentProcesses;
  readonly handle: RunJob;
  readonly context: OpenedContext;
  /** As they are stored: the process checks them again. */
  readonly fields: Record<string, unknown>;
  /**
   * The process has ended while steps were under way, whose tries are recorded as failed, or its handler was given a wrong
   * answer.
   */
  relaunch(): void;
}

/** Where the handler makes a call. */
interface CallPlace {
  readonly on: CallTarget;
  readonly isInStep: boolean;
  /** Whether the function of a step has started there. */
  readonly isBegun: boolean | undefined;
}

/** A handle, by the names of its calls. */
type Callable = Readonly<Record<string, (...args: unknown[]) => Promise<unknown>>>;

/** Milliseconds that a process is kept whose job only waits. */
const PATIENCE = 10_000;
const SETTLED = Promise.resolve();

type Told<T extends FromAgent["type"]> = Extract<FromAgent, { type: T }>;

/**
 * Runs the handler of a job in its agent's process: makes the calls that it requests, as if the handler were
 * here, and sends it their results. A turn of the run lasts until the process has reported what its handler
 * did in it.
 */
export class IsolatedRun {
  readonly #parts: IsolatedRunParts;
  /** Handles that the handler was given, by kind and id. */
  readonly #handles = { case: new Map<string, RunCase>(), child: new Map<string, ChildHandle>() };
  /** Steps whose functions run there, and the steps by the number of their call. */
  readonly #running = new Map<number, Waiter>();
  readonly #steps = new Map<number, StepUnderWay>();
  /** Steps whose functions were called there before this process knew of them, with their results. */
  readonly #ahead = new Map<number, Promise<unknown>>();
  /** Steps whose functions have given a result there. */
  readonly #ran = new Set<number>();
  /** What the last try of a step that failed there has answered. */
  readonly #mayRetry = new Map<number, boolean>();
  readonly #checks = new Map<number, Waiter>();
  readonly #answers = new Map<number, Waiter>();
  /** What ends the part of a turn that a message began; and up to where the handler was given ends, by message. */
  readonly #turns = new Map<number, () => void>();
  readonly #lines = new Map<number, number>();
  /** Contents of files that the handler reads and makes. */
  readonly #streams = new ByteStreams((message) => this.#send(message));
  /** Turns in which steps may begin there without asking: what ends their effect here, by message. */
  readonly #grants = new Map<number, () => void>();
  /** Messages that wait until the steps of the one before have started here. */
  #later: FromAgent[] | undefined;
  #seq = 0;
  #numbers = 0;
  #last = "before its first call";
  #settle: { resolve(value: unknown): void; reject(error: unknown): void } | undefined;
  #isOver = false;
  /** Whether the process was ended while the job only waited: the job resumes in a new one. */
  #isParked = false;
  #isUnparked = false;
  /** Whether the handler was given a wrong answer: nothing that it has done since counts. */
  #isMisled = false;
  #isBehindRecord = false;
  #parking: NodeJS.Timeout | undefined;

  /** Which of the runs of its process this is. */
  readonly #of: number;
  #isLeft = false;

  constructor(parts: IsolatedRunParts) {
    this.#parts = parts;
    this.#of = parts.process.nextRun();
    parts.process.onMessage = (message) => this.#take(message);
    parts.process.onEnd = (how) => this.#ended(how);
  }

  /** Runs the handler; settles as it does, or rejects where its process ends between two steps. */
  start(): Promise<unknown> {
    const { run, handle, fields, context } = this.#parts;
    const ended = new Promise<unknown>((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    run.signal.addEventListener("abort", () => {
      this.#send({ type: "abort", error: toWire(run.signal.reason) });
      if (this.#isParked) this.#settle!.reject(run.signal.reason);
    });
    run.gate.begin();
    const { seq, mayBegin } = this.#beginPart();
    const job = { id: handle.id, context: handle.context };
    const turn = run.gate.turns.number;
    this.#send({
      ...{ type: "start", of: this.#of, seq, turn, job, fields, parameters: context.parameters },
      changes: [...run.record.changes],
      ...{ isBehindRecord: this.#isBehind(), mayBegin },
    });
    return ended;
  }

  /** Nothing more is expected of the process: it may run another job where its handler has ended. */
  end(): void {
    const { process, processes } = this.#parts;
    this.#isLeft = true;
    this.#streams.end(new Error("The run has ended"));
    clearTimeout(this.#parking);
    if (this.#isOver) processes.release(process);
    else processes.end(process, "was left behind");
    this.#isOver = true;
  }

  /** Calls another method of the agent in the process of this job. */
  call(name: string, context: Record<string, unknown>): Promise<unknown> {
    if (this.#isParked) {
      this.#unpark();
      // Nothing of it is recorded: it is called when the job is resumed.
      return Promise.reject(new ProcessEndedError(`Method ${name} is called when the job is resumed`));
    }
    return callMethod(this.#parts.process, {
      id: this.#parts.processes.nextCall(),
      name,
      context,
      waiting: this.#answers,
    });
  }

  /** A timer of a step that was left behind may be over while the next job uses the process. */
  #send(message: ToAgent): void {
    if (!this.#isLeft) this.#parts.process.send(message);
  }

  #take(message: FromAgent): void {
    if ("of" in message && message.of !== this.#of) return;
    if (this.#later) {
      this.#later.push(message);
      return;
    }
    switch (message.type) {
      case "effects":
        this.#takeEffects(message);
        return;
      case "ran":
        this.#takeRan(message);
        return;
      case "emitted": {
        const waiting = this.#running.get(message.id);
        if (waiting?.attempt === message.attempt) waiting.emit?.(message.chunk);
        return;
      }
      case "checked":
        settle(this.#checks, message.check, { ...message, value: message.verdict });
        return;
      case "answer":
        settle(this.#answers, message.id, message);
        return;
      case "makeFile":
        void this.#makeFile(message);
        return;
      case "trace":
        void this.#trace(message);
        return;
      case "openFile": {
        const { stream, file } = message;
        this.#streams.offer(stream, () => this.#parts.handle.open(file).stream());
        return;
      }
      case "pull":
      case "part":
      case "drop":
        this.#streams.take(message);
        return;
      default:
        return;
    }
  }

  async #makeFile({ id, attempt, step, stream, name, mediaType }: Told<"makeFile">): Promise<void> {
    const waiting = this.#running.get(id);
    try {
      if (waiting?.attempt !== attempt)
        throw new Error(`The file "${name}" was made after its step "${step}" had ended`);
      const options = mediaType === undefined ? {} : { type: mediaType };
      const file = await waiting.file!(name, this.#streams.read(stream), options);
      this.#send({ type: "made", stream, file });
    } catch (error) {
      this.#send({ type: "made", stream, error: toWire(error) });
    }
  }

  /** A step that has ended has no trace to continue. */
  async #trace({ id, ask }: Told<"trace">): Promise<void> {
    try {
      const value = (await this.#running.get(id)?.traceHeaders?.()) ?? {};
      this.#send({ type: "traced", ask, value });
    } catch (error) {
      this.#send({ type: "traced", ask, error: toWire(error) });
    }
  }

  #takeEffects({ did, seen = 0, cause = 0, effects }: Told<"effects">): void {
    const { gate } = this.#parts.run;
    const doAll = (): void => {
      for (const effect of effects) if (!this.#isMisled) this.#do(effect);
    };
    if (did !== undefined) this.#endGrant(did, effects);
    // The turn does not end: nothing more is given to the handler.
    if (this.#isMisled) return;
    const endPart = did === undefined ? undefined : this.#turns.get(did);
    if (endPart) doAll();
    else if (effects.length > 0) gate.turns.outside(doAll, { cause, line: this.#lines.get(seen) ?? 0 });
    if (did === undefined || this.#isMisled) return;
    this.#turns.delete(did);
    this.#lines.delete(did - 1);
    endPart?.();
    this.#parkLater();
  }

  /** A job may wait for days: its process is not kept so long. */
  #parkLater(): void {
    clearTimeout(this.#parking);
    if (this.#isOver) return;
    const { run, process, processes } = this.#parts;
    this.#parking = setTimeout(() => {
      const isBusy = run.parts.slot.isHeld || this.#running.size > 0 || this.#turns.size > 0;
      if (isBusy || this.#answers.size > 0 || this.#checks.size > 0) {
        this.#parkLater();
        return;
      }
      this.#isParked = true;
      this.#isOver = true;
      processes.end(process, "is not needed while its job waits");
    }, PATIENCE).unref();
  }

  /** What the job waited for is recorded: it resumes in a new process, from its record. */
  #unpark(): void {
    if (this.#isUnparked) return;
    this.#isUnparked = true;
    this.#parts.relaunch();
  }

  #do(effect: Effect): void {
    const { context } = this.#parts;
    switch (effect.type) {
      case "log": {
        const [message, fields] = effect.args as [string, Record<string, unknown>];
        context.log[effect.level](message, fields);
        return;
      }
      case "telemetry":
        context.telemetry(effect.data as Parameters<typeof context.telemetry>[0]);
        return;
      case "changed":
        this.#changed(effect);
        return;
      case "ended":
        this.#isOver = true;
        if (effect.error) this.#settle!.reject(fromWire(effect.error));
        else this.#settle!.resolve(effect.value);
        return;
      case "call":
        this.#call(effect);
        return;
    }
  }

  /** Answers as in the service's own process; a handler that was given another answer resumes in a new one. */
  #changed({ name, is }: Extract<Effect, { type: "changed" }>): void {
    const { run, handle, process, processes, relaunch } = this.#parts;
    if (run.parts.redact(name) !== name) {
      const message = "job.changed was called with a name that has a secret in it";
      run.end({ to: "failed", reason: "error", message });
      return;
    }
    if (handle.changed(name) === is || run.isInterrupted) return;
    this.#isMisled = true;
    if (run.isRehearsal) {
      relaunch();
      return;
    }
    // The right answer is recorded first: the new process is given it.
    void run.ledger.write(async () => {}).then(relaunch, relaunch);
    // Steps that are under way end before that. One may wait for what the misled handler does.
    setTimeout(() => {
      if (!run.isOver) processes.end(process, "was given a wrong answer of job.changed");
    }, PATIENCE).unref();
  }

  /** Whether the handler has made all recorded calls; it stays so. */
  #isBehind(): boolean {
    this.#isBehindRecord ||= this.#parts.run.gate.isBehindRecord;
    return this.#isBehindRecord;
  }

  #call({ id, on, inside, isBegun, call }: Extract<Effect, { type: "call" }>): void {
    const { run } = this.#parts;
    if (isBegun && call.op === "step") this.#ahead.set(id, mayBeLeft(this.#runsThere(id, call.name)));
    const outer = inside === undefined ? undefined : this.#steps.get(inside);
    const make = (): Promise<unknown> => {
      try {
        return this.#make(id, call, { on, isInStep: inside !== undefined, isBegun });
      } catch (error) {
        return Promise.reject(error);
      }
    };
    const ended = outer && this.#running.has(inside!) ? run.activity.inside(outer, make, undefined) : make();
    ended.then(
      (value) => this.#sendEnd(id, call, { value }),
      (error: unknown) => this.#sendEnd(id, call, { error: toWire(error) }),
    );
  }

  #make(id: number, call: RemoteCall, { on, isInStep, isBegun }: CallPlace): Promise<unknown> {
    const { handle } = this.#parts;
    const { kind } = on;
    const scope = kind === "case" ? this.#handles.case.get(on.id)! : handle;
    switch (call.op) {
      case "step": {
        const fn = (info: StepInfo) => this.#runStep(id, call, info);
        const options = { ...call.options } as StepOptions;
        // What the process has answered when the step failed there.
        if (call.options.retryIf) Object.assign(options, { retryIf: () => this.#mayRetry.get(id) ?? true });
        return scope.stepOf({ name: call.name, fn, options, isBegun });
      }
      case "ask":
        return this.#ask(scope as RunCase, id, call);
      case "pass": {
        const passed = Object.hasOwn(PASSED[kind], call.name) ? PASSED[kind][call.name] : undefined;
        if (passed === undefined) throw new TypeError(`A ${kind} has no call "${call.name}"`);
        if (call.name === "read") return scope.readIn(isInStep);
        const target = (kind === "child" ? this.#handles.child.get(on.id)! : scope) as unknown as Callable;
        const made = target[call.name]!(...call.args.map(fromSent));
        const { gives } = passed;
        return gives === undefined ? made : made.then((given) => this.#keep(gives, given));
      }
    }
  }

  /** The handler's calls on a handle that it is given come here. */
  #keep(kind: "case" | "child", handle: unknown): { readonly id: string; readonly ref?: string } {
    const { id, ref } = handle as { id: string; ref?: string };
    (this.#handles[kind] as Map<string, unknown>).set(id, handle);
    return { id, ...(ref !== undefined && { ref }) };
  }

  #ask(
    item: CaseHandle,
    id: number,
    { options, name, until, unknown }: Extract<RemoteCall, { op: "ask" }>,
  ): Promise<unknown> {
    const given = {
      ...(options as unknown as AskOptions<FieldsInput>),
      ...(until !== undefined && { deadline: new Date(until) }),
      fields: asInput(
        {
          list: options.fields as Fields["list"],
          hasFiles: hasFiles(options.fields as Fields["list"]),
          check: (answer) => this.#check(id, options.fields as Fields["list"], { ...answer }),
        },
        unknown,
      ),
    } as AskOptions<FieldsInput>;
    return name === undefined ? item.ask(given) : item.ask(name, given);
  }

  /** Sends the handler the result of a call; the turn lasts until it has reported what it did then. */
  #sendEnd(id: number, call: RemoteCall, end: { value?: unknown; error?: ReturnType<typeof toWire> }): void {
    if (this.#isParked) {
      // The run may end in the meantime.
      if (!this.#parts.run.isInterrupted) this.#unpark();
      return;
    }
    const { gate } = this.#parts.run;
    this.#last = `after ${call.op === "step" ? `step "${call.name}"` : call.op === "pass" ? call.name : call.op}`;
    this.#steps.delete(id);
    this.#mayRetry.delete(id);
    const { isInTurn, number, line } = gate.turns;
    const turn = isInTurn ? number : undefined;
    const { seq, mayBegin } = turn === undefined ? { seq: ++this.#seq, mayBegin: false } : this.#beginPart();
    this.#lines.set(seq, line);
    // It is not sent back to where it came from.
    const isOwn = this.#ran.delete(id) && !end.error;
    const result = isOwn ? { isOwn } : end;
    this.#send({ type: "settle", seq, id, turn, isBehindRecord: this.#isBehind(), mayBegin, ...result });
  }

  #beginPart(): { readonly seq: number; readonly mayBegin: boolean } {
    const { run } = this.#parts;
    const seq = ++this.#seq;
    // What an earlier part of the turn does is not known yet.
    const mayBegin = this.#turns.size === 0 && this.#isBehind() && run.letsStepsBegin;
    if (mayBegin) this.#grants.set(seq, run.activity.keepBusy());
    this.#turns.set(seq, run.gate.turns.hold());
    return { seq, mayBegin };
  }

  /** What the handler did in a turn is known: steps that have started there start here, before anything else happens. */
  #endGrant(seq: number, effects: readonly Effect[]): void {
    const end = this.#grants.get(seq);
    if (!end) return;
    this.#grants.delete(seq);
    if (!effects.some((effect) => effect.type === "call" && effect.isBegun)) {
      end();
      return;
    }
    const later: FromAgent[] = [];
    this.#later = later;
    // Microtasks run until there are none; only then comes the next tick.
    void SETTLED.then(() =>
      process.nextTick(() => {
        end();
        this.#later = undefined;
        for (const message of later) this.#take(message);
      }),
    );
  }

  /** Resolves as a try of the step does there. */
  #runsThere(id: number, name: string, info?: StepInfo): Promise<unknown> {
    const { attempt, report, emit, file, traceHeaders } = info ?? {};
    return new Promise<unknown>((resolve, reject) => {
      this.#running.set(id, { name, attempt, report, emit, file, traceHeaders, resolve, reject });
    });
  }

  #runStep(
    id: number,
    { name, options }: Extract<RemoteCall, { op: "step" }>,
    info: StepInfo,
  ): Promise<unknown> {
    const { run } = this.#parts;
    const step = run.activity.enclosing;
    if (step) this.#steps.set(id, step);
    const ahead = this.#ahead.get(id);
    this.#ahead.delete(id);
    if (ahead) return ahead;
    // The job's own signal is sent once, not for each step.
    if (options.timeout !== undefined) {
      const abort = () => this.#send({ type: "abortStep", id, error: toWire(info.signal.reason) });
      info.signal.addEventListener("abort", abort, { once: true });
    }
    const { attempt, idempotencyKey } = info;
    const ran = this.#runsThere(id, name, info);
    this.#send({ type: "run", id, attempt, idempotencyKey });
    return ran;
  }

  #takeRan({ id, attempt, value, error, isUnrecordable, mayRetry, report }: Told<"ran">): void {
    const waiting = this.#running.get(id);
    // A try that took too long may end after the next one has started.
    if (!waiting || waiting.attempt !== attempt) return;
    this.#running.delete(id);
    if (report) waiting.report?.(report);
    if (mayRetry !== undefined) this.#mayRetry.set(id, mayRetry);
    if (!error) {
      this.#ran.add(id);
      waiting.resolve(value);
    } else if (isUnrecordable) waiting.reject(new UnrecordableError(error.message));
    else waiting.reject(fromWire(error));
  }

  #check(ask: number, list: Fields["list"], answer: Record<string, unknown>): MaybePromise<CheckedFields> {
    // The schema is not at hand: the handler checks the answer again when it is resumed.
    if (this.#isParked) return readFields(list as FieldsInput).check(answer);
    const check = ++this.#numbers;
    const checked = new Promise<unknown>((resolve, reject) => {
      this.#checks.set(check, { name: "check", resolve, reject });
    });
    this.#send({ type: "check", ask, check, answer });
    return checked as Promise<CheckedFields>;
  }

  /** The process has ended by itself, hangs, or took too much memory. */
  #ended(how: string): void {
    const { run, agent, process, processes } = this.#parts;
    processes.end(process, how);
    if (this.#isOver) return;
    this.#isOver = true;
    const steps = [...this.#running.values()].map(({ name }) => `step "${name}"`);
    const where =
      steps.length > 0
        ? `while ${steps.join(", ")} ${steps.length > 1 ? "were" : "was"} under way`
        : this.#last;
    const error = new ProcessEndedError(`The process of agent "${agent}" ${how} ${where}`);
    for (const waiters of [this.#running, this.#checks, this.#answers]) {
      for (const { reject } of waiters.values()) reject(error);
      waiters.clear();
    }
    this.#streams.end(error);
    for (const end of this.#grants.values()) end();
    this.#grants.clear();
    if (this.#isMisled) return;
    run.log.error("the process of an isolated agent has ended", { problem: error.message });
    if (steps.length > 0 && !run.isInterrupted) {
      this.#parts.relaunch();
      return;
    }
    run.end({ to: "failed", reason: "crashed", message: error.message });
    this.#settle!.reject(error);
  }
}

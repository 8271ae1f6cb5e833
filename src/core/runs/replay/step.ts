import { toJsonValue } from "../../agents/json-value.ts";
import { assertStepOptions } from "../../agents/known-options.ts";
import { toRecordedInput } from "../../agents/recorded-input.ts";
import type { StepFunction, StepInfo, StepOptions } from "../../agents/run-context.ts";
import { addReport } from "../../agents/step-report.ts";
import { toMilliseconds } from "../../base/duration.ts";
import { LONGEST_MESSAGE, LONGEST_STACK, messageOf, shorten } from "../../base/error-text.ts";
import type { Unit } from "../../entities/ledger.ts";
import { toFileValue } from "../../entities/written-files.ts";
import type { CallEntry, EmittedEntry } from "../../models/run-entry.ts";
import { type Call, mayBeLeft } from "./call.ts";
import type { CallScope } from "./call-scope.ts";
import { readLarge, writeLarge } from "./large-result.ts";
import { readCost } from "./limits.ts";
import { type Artifact, addFile, keepResult, linkArtifact, linkMade, releaseMade } from "./made-files.ts";
import { pauseLeft, Retries, UnrecordableError } from "./retries.ts";
import type { Run } from "./run.ts";
import { fromRecordedError, StepFailedError, toRecordedError } from "./run-errors.ts";
import { toShown } from "./shown-result.ts";
import { costOf, type StepUnderWay } from "./step-under-way.ts";
import { withSignal } from "./with-signal.ts";
import { assertKind, countUse, workOf } from "./work.ts";

/** Milliseconds from which on another job may have the slot of one that waits for its next try. */
const LONG_PAUSE = 60_000;

/** Of a step that is called without any: nothing needs to be checked. */
export const NO_OPTIONS: StepOptions = Object.freeze({});

/** One try of a step, as a case shows it in its history. */
export interface ShownTry {
  readonly name: string;
  readonly cost: number | null;
  readonly payload: Record<string, unknown> | null;
  readonly error: string | null;
}

/** A step as the handler calls it. */
export interface GivenStep<T> {
  readonly name: string;
  readonly fn: StepFunction<T>;
  readonly options: StepOptions;
  /** Whether the function has started already, in the process of an isolated agent. */
  readonly isBegun?: boolean | undefined;
  /** What a file of the job is to people, where the step says that. */
  readonly artifact?: Artifact | undefined;
}

export interface StepCall<T> extends GivenStep<T> {
  readonly scope: CallScope;
  /** Stores a try elsewhere too, in the same unit as its record. */
  readonly show: ((unit: Unit, shown: ShownTry) => Promise<unknown>) | undefined;
}

/** Runs a step and records its result durably, or answers from the record. */
export function runStep<T>(step: StepCall<T>): Promise<T> {
  const { scope, name, options } = step;
  try {
    const cost = options === NO_OPTIONS ? 0 : readOptions(step);
    const call = scope.take("step", name, options.key);
    const recorded = call.takeEntry();
    // Without a detour: a long run is replayed through here.
    if (recorded?.by_reference && !call.ends) return mayBeLeft(readLarge(scope.run, call, recorded));
    if (recorded && !recorded.error && !call.ends)
      return scope.run.gate.delivered(call, recorded.result as T)!;
    return mayBeLeft(recorded ? endAgain(step, call, recorded) : runNew(step, call, cost));
  } catch (error) {
    return mayBeLeft(Promise.reject(error));
  }
}

/** What the options of a step say that it costs; throws where they are wrong. */
function readOptions<T>({ scope, name, options }: StepCall<T>): number {
  // A job whose record was made with them must not fail in a replay.
  if (scope.run.gate.isLive) assertStepOptions(name, options);
  const cost = readCost(options.cost, `Step "${name}"`);
  assertKind(options.kind, name);
  return cost;
}

/** A step that failed, or by which a limit was reached. */
async function endAgain<T>({ scope, name }: StepCall<T>, call: Call, recorded: CallEntry): Promise<T> {
  await scope.run.delivered(call);
  if (!recorded.error) return recorded.result as T;
  throw new StepFailedError(name, recorded.attempts ?? 1, fromRecordedError(recorded.error!));
}

async function runNew<T>(step: StepCall<T>, call: Call, cost: number): Promise<T> {
  const { scope, name, options } = step;
  const { run } = scope;
  const { retries: most, backoff } = options;
  const failed = call.tries?.failed ?? 0;
  const retries = most === undefined && backoff === undefined ? undefined : new Retries(options, failed);
  let isAgain = false;
  // Only the first try has.
  let isBegun = step.isBegun === true;
  if (call.tries?.pauseUntil !== undefined) {
    await run.enter(call);
    const { clock, wokenAt = 0 } = run.parts;
    await pause(run, pauseLeft(call.tries, new Date(Math.max(clock().getTime(), wokenAt))));
    isAgain = true;
  }
  for (let attempt = scope.nextAttempt(call); ; attempt++) {
    await (isBegun ? run.gate.live(call) : run.enter(call));
    // What has started was let through before.
    if (!isBegun) run.limits.stopAt(run.limits.reserve(cost, name));
    const { kind } = options;
    const underWay: StepUnderWay = {
      call,
      name,
      attempt,
      cost,
      kind,
      startedAt: "",
      isRecorded: false,
      followedBy: undefined,
    };
    const waiting = isBegun ? run.joins(underWay) : run.activity.begin(underWay);
    if (waiting) await waiting;
    isBegun = false;
    if (isAgain) await recordBegun(run, underWay);
    const tried = await tryOnce(step, underWay, retries);
    run.limits.stopAt(call.ends);
    if (tried.ok) {
      const turn = run.delivered(call);
      if (turn) await turn;
      return tried.value;
    }
    if (tried.pause === undefined) {
      const turn = run.delivered(call);
      if (turn) await turn;
      throw new StepFailedError(name, attempt, tried.error);
    }
    await pause(run, tried.pause);
    isAgain = true;
  }
}

async function pause(run: Run, milliseconds: number): Promise<void> {
  if (milliseconds <= 0) return;
  const over = () => new Promise<void>((resolve) => void run.clock.after(milliseconds, resolve));
  const until = run.parts.clock().getTime() + milliseconds;
  await (milliseconds > LONG_PAUSE
    ? run.activity.wait(over, { for: "time", end: { at: until, left: milliseconds } })
    : run.life.orEnd(over));
}

/** A further try: should the process end, it was under way, and the pause before it was over. */
async function recordBegun(run: Run, one: StepUnderWay): Promise<void> {
  try {
    await run.ledger.write((unit) =>
      unit.record(run.jobId, { type: "begun", call: "step", ...one.call.fields, attempt: one.attempt }),
    );
  } catch (error) {
    run.activity.done(one);
    throw error;
  }
}

type Tried<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: unknown; readonly pause: number | undefined };

/** Tries a step; a failure says how long to wait before the next try, in milliseconds, where there is one. */
async function tryOnce<T>(
  call: StepCall<T>,
  one: StepUnderWay,
  retries: Retries | undefined,
): Promise<Tried<T>> {
  const { run } = call.scope;
  const startedAt = run.parts.ledger.now();
  one.startedAt = startedAt;
  run.parts.checkLease?.();
  try {
    let value: T;
    try {
      value = await run.life.orEnd(() => invoke(call, one));
    } finally {
      // Before its end is stored: a reader of that has read the chunks.
      const emitted = one.emitter?.end();
      if (emitted) one.emitted = emitted;
      one.hasReturned = true;
    }
    const result = toRecord(value, call.name);
    const writing = writeLarge(run, result);
    if (writing) one.result = await writing;
    await run.ledger.write((unit) => recordResult(unit, call, one, { startedAt, result }));
    // As it will come back from the record, so that the first run and a later one see the same.
    return { ok: true, value: result as T };
  } catch (thrown) {
    // The run has ended: what is under way is accounted for when it is finished.
    if (run.isInterrupted || run.isSealed) throw thrown;
    const { error, pause } = decide(retries, thrown, run.parts.clock());
    await run.ledger.write((unit) => recordFailure(unit, call, one, { startedAt, error, pause }));
    return { ok: false, error, pause };
  } finally {
    run.activity.done(one);
    if (one.files || one.result) releaseMade(run, one);
  }
}

/** Whether there is another try; a `retryIf` that fails is what the step fails with. */
function decide(
  retries: Retries | undefined,
  error: unknown,
  now: Date,
): { readonly error: unknown; readonly pause: number | undefined } {
  try {
    return { error, pause: retries?.after(error, now) };
  } catch (failure) {
    return { error: failure, pause: undefined };
  }
}

async function recordResult<T>(
  unit: Unit,
  { scope, name, show, options, artifact }: StepCall<T>,
  one: StepUnderWay,
  { startedAt, result }: { startedAt: string; result: unknown },
): Promise<void> {
  const { attempt } = one;
  const cost = costOf(one);
  const { input } = options;
  if (show) {
    const payload = toShown(result, scope.run.parts.redact);
    await show(unit, { name, cost: cost || null, payload, error: null });
  }
  // Most steps have no more than this: what others have is added one by one.
  const entry: CallEntry = {
    at: unit.now,
    type: "call",
    call: "step",
    ...one.call.fields,
    started_at: startedAt,
    result: one.result ? toFileValue(one.result) : result,
  };
  if (one.result) entry.by_reference = true;
  if (attempt > 1) entry.attempts = attempt;
  if (cost > 0) entry.cost = cost;
  if (input !== undefined) entry.input = toRecordedInput(input);
  if (one.emitted) Object.assign(entry, emittedBy(scope.run, one, result));
  if (one.kind || one.reported) Object.assign(entry, workOf(one));
  if (cost > one.cost) Object.assign(entry, limitBy(scope.run, unit, one));
  await unit.record(scope.run.jobId, entry);
  if (one.result) await keepResult(unit, scope.run, one.result);
  if (one.files) await linkMade(unit, scope.run, { files: one.files, caseId: scope.caseId });
  if (artifact) await linkArtifact(unit, scope.run, { artifact, caseId: scope.caseId });
  const used = countUse(unit, one, { run: scope.run, isFailed: false });
  if (used) await used;
  unit.afterwards((seq) => {
    scope.run.limits.account(one);
    scope.run.gate.settle(one.call, seq);
  });
}

async function recordFailure<T>(
  unit: Unit,
  { scope, name, show, options }: StepCall<T>,
  one: StepUnderWay,
  { startedAt, error, pause }: { startedAt: string; error: unknown; pause: number | undefined },
): Promise<void> {
  const { run } = scope;
  const { attempt } = one;
  const cost = costOf(one);
  const { input } = options;
  const isFinal = pause === undefined;
  const failure = toRecordedError(error);
  const { redact } = run.parts;
  const message = shorten(redact(failure.message), LONGEST_MESSAGE);
  const stack = failure.stack && shorten(redact(failure.stack), LONGEST_STACK);
  const entry = { ...one.call.fields, started_at: startedAt, ...emittedBy(run, one) };
  const charge = cost > 0 ? { cost } : {};
  const payload = { attempt, ...(!isFinal && { retried: true }) };
  // A try that is not the last one has no entry that is given to a handler again: the next try finds the limit.
  const ends = limitBy(run, unit, one);
  await show?.(unit, { name, cost: cost || null, payload, error: message });
  await unit.record(
    run.jobId,
    isFinal
      ? {
          type: "call",
          call: "step",
          ...entry,
          error: { name: failure.name, message, ...(stack && { stack }) },
          attempts: attempt,
          ...charge,
          ...(input !== undefined && { input: toRecordedInput(input) }),
          ...workOf(one),
          ...ends,
        }
      : {
          ...{
            type: "attempt",
            ...entry,
            attempt,
            error: message,
            next_at: later(unit.now, pause),
            ...charge,
          },
          ...workOf(one),
        },
  );
  await countUse(unit, one, { run, isFailed: true });
  unit.afterwards((seq) => {
    run.limits.account(one);
    if (isFinal) run.gate.settle(one.call, seq);
  });
}

/** Has those who follow the job see what a step's function emits, as long as that runs. */
function emitChunk({ parts, jobId }: Run, one: StepUnderWay, chunk: unknown): void {
  if (one.hasReturned) return;
  one.emitter ??= parts.emissions?.attempt(jobId, () => {
    const { case_id, name, key, position } = one.call.fields;
    return { run: parts.epoch, case_id, name, key, position, attempt: one.attempt };
  });
  one.emitter?.emit(chunk);
}

/** What an attempt has emitted, as its record has it. */
function emittedBy({ parts }: Run, one: StepUnderWay, result?: unknown): EmittedEntry {
  const { emitted } = one;
  if (!emitted) return {};
  const isResult = emitted.length === 1 && emitted[0] === result && !one.result;
  return { emitted: { run: parts.epoch, ...(!isResult && { chunks: emitted }) } };
}

/** Where a step has cost more than was set aside for it. */
function limitBy(run: Run, unit: Unit, one: StepUnderWay): Pick<CallEntry, "ends"> {
  const { call, name, cost } = one;
  return costOf(one) > cost ? run.limits.endsBy(unit, call, { name, cost: costOf(one) }) : {};
}

function later(now: string, milliseconds: number): string {
  return new Date(Date.parse(now) + milliseconds).toISOString();
}

/** Calls the step's function, with its limit of time. */
function invoke<T>({ scope, name, fn, options }: StepCall<T>, one: StepUnderWay): T | Promise<T> {
  const { run } = scope;
  const { call, attempt } = one;
  const idempotencyKey = scope.idempotencyKey(call);
  const report: StepInfo["report"] = (given) => {
    one.reported = addReport(one.reported, given);
  };
  const emit: StepInfo["emit"] = (chunk) => emitChunk(run, one, chunk);
  const file: StepInfo["file"] = (called, data, given) => addFile(run, one, { name: called, data, ...given });
  const traceHeaders: StepInfo["traceHeaders"] = async () =>
    (await run.parts.trace?.({ jobId: run.jobId, caseId: call.caseId, position: call.position })) ?? {};
  if (options.timeout === undefined) {
    return run.activity.inside(
      one,
      fn,
      withSignal(run, { attempt, idempotencyKey, report, emit, file, traceHeaders }),
    );
  }
  const own = new AbortController();
  const signal = AbortSignal.any([run.signal, own.signal]);
  const limit = toMilliseconds(options.timeout);
  return new Promise<T>((resolve, reject) => {
    const late = (): void => {
      const error = new Error(`Step "${name}" took longer than ${options.timeout}${unit(options.timeout)}`);
      own.abort(error);
      run.activity.leaveBehind(one);
      reject(error);
    };
    const stop = run.parts.startTimer(limit, late, "running");
    // Also what it throws synchronously is to stop the timer.
    const tried = async () =>
      run.activity.inside(one, fn, {
        attempt,
        idempotencyKey,
        signal,
        report,
        emit,
        file,
        traceHeaders,
      });
    tried().then(resolve, reject).finally(stop);
  });
}

function unit(duration: unknown): string {
  return typeof duration === "number" ? " s" : "";
}

function toRecord(value: unknown, name: string): unknown {
  try {
    return toJsonValue(value, `The result of step "${name}"`);
  } catch (error) {
    throw new UnrecordableError(messageOf(error));
  }
}

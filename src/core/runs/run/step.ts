import { toJsonValue } from "../../agents/json-value.ts";
import type { StepFunction, StepInfo, StepOptions } from "../../agents/run-context.ts";
import { toMilliseconds } from "../../base/duration.ts";
import { LONGEST_MESSAGE, LONGEST_STACK, messageOf, shorten } from "../../base/error-text.ts";
import type { Unit } from "../../entities/ledger.ts";
import type { CallEntry } from "../../models/run-entry.ts";
import type { StepUnderWay } from "./activity.ts";
import type { Call } from "./call.ts";
import type { CallScope } from "./call-scope.ts";
import { readCost } from "./cost.ts";
import { mayBeLeft } from "./may-be-left.ts";
import type { Run } from "./run.ts";
import { fromRecordedError, StepFailedError, toRecordedError } from "./run-errors.ts";
import { toShown } from "./shown-result.ts";
import { WithSignal } from "./with-signal.ts";

/** One try of a step, as a case shows it in its history. */
export interface ShownTry {
  readonly name: string;
  readonly cost: number | null;
  readonly payload: Record<string, unknown> | null;
  readonly error: string | null;
}

export interface StepCall<T> {
  readonly scope: CallScope;
  readonly name: string;
  readonly fn: StepFunction<T>;
  readonly options: StepOptions;
  /** Stores a try elsewhere too, in the same unit as its record. */
  readonly show?: (unit: Unit, shown: ShownTry) => Promise<unknown>;
}

/** A result that cannot be recorded: trying again would not help. */
class UnrecordableError extends TypeError {
  override readonly name = "UnrecordableError";
}

/** Runs a step and records its result durably, or answers from the record. */
export function runStep<T>(step: StepCall<T>): Promise<T> {
  const { scope, name, options } = step;
  try {
    const cost = readCost(options.cost, `Step "${name}"`);
    const call = scope.take("step", name, options.key);
    const recorded = call.takeEntry();
    // Without a detour: a long run is replayed through here.
    if (recorded && !recorded.error) return scope.run.deliveries.delivered(call, recorded.result as T)!;
    return mayBeLeft(recorded ? failAgain(step, call, recorded) : runNew(step, call, cost));
  } catch (error) {
    return mayBeLeft(Promise.reject(error));
  }
}

async function failAgain<T>({ scope, name }: StepCall<T>, call: Call, recorded: CallEntry): Promise<T> {
  await scope.run.delivered(call);
  throw new StepFailedError(name, recorded.attempts ?? 1, fromRecordedError(recorded.error!));
}

async function runNew<T>(step: StepCall<T>, call: Call, cost: number): Promise<T> {
  const { scope, name, options } = step;
  const { run } = scope;
  const retries = options.retries ?? 0;
  let failed = call.tries?.failed ?? 0;
  const pauses = new Pauses(options.backoff, failed);
  let isAgain = false;
  if (call.tries?.pauseUntil !== undefined) {
    await run.enter(call);
    await pause(run, pauses.left(call.tries.pauseUntil, run.parts.clock()));
    isAgain = true;
  }
  for (let attempt = scope.nextAttempt(call); ; attempt++) {
    await run.enter(call);
    run.stopAt(run.limits.reserve(cost, name));
    const underWay = { call, name, attempt, cost, startedAt: "", isRecorded: false };
    const waiting = run.activity.begin(underWay);
    if (waiting) await waiting;
    if (isAgain) await recordBegun(run, underWay);
    const isLast = failed >= retries;
    const next = isLast ? undefined : pauses.next();
    const tried = await tryOnce(step, underWay, next);
    if (tried.ok) {
      const turn = run.delivered(call);
      if (turn) await turn;
      return tried.value;
    }
    if (tried.isFinal) {
      const turn = run.delivered(call);
      if (turn) await turn;
      throw new StepFailedError(name, attempt, tried.error);
    }
    failed++;
    await pause(run, next!);
    isAgain = true;
  }
}

async function pause(run: Run, milliseconds: number): Promise<void> {
  if (milliseconds <= 0) return;
  await run.orEnd(() => new Promise<void>((resolve) => void run.after(milliseconds, resolve)));
}

/** A further try: should the process end, it was under way, and the pause before it was over. */
async function recordBegun(run: Run, one: StepUnderWay): Promise<void> {
  try {
    await run.write((unit) =>
      unit.record(run.jobId, { type: "begun", call: "step", ...one.call.fields, attempt: one.attempt }),
    );
  } catch (error) {
    run.activity.done(one);
    throw error;
  }
}

type Tried<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: unknown; readonly isFinal: boolean };

/** Tries a step; `pause` is the wait before the next try, where there may be one, in milliseconds. */
async function tryOnce<T>(
  call: StepCall<T>,
  one: StepUnderWay,
  pause: number | undefined,
): Promise<Tried<T>> {
  const { run } = call.scope;
  const startedAt = run.parts.ledger.now();
  one.startedAt = startedAt;
  try {
    const value = await run.orEnd(() => invoke(call, one));
    const result = toRecord(value, call.name);
    await run.write((unit) => recordResult(unit, call, one, { startedAt, result }));
    // As it will come back from the record, so that the first run and a later one see the same.
    return { ok: true, value: result as T };
  } catch (error) {
    // The run has ended: what is under way is accounted for when it is finished.
    if (run.isInterrupted || run.isSealed) throw error;
    const isFinal = pause === undefined || error instanceof UnrecordableError;
    const next = isFinal ? undefined : pause;
    await run.write((unit) => recordFailure(unit, call, one, { startedAt, error, pause: next }));
    return { ok: false, error, isFinal };
  } finally {
    run.activity.done(one);
  }
}

async function recordResult<T>(
  unit: Unit,
  { scope, name, show }: StepCall<T>,
  one: StepUnderWay,
  { startedAt, result }: { startedAt: string; result: unknown },
): Promise<void> {
  const { attempt, cost } = one;
  if (show) {
    const payload = toShown(result, scope.run.parts.redact);
    await show(unit, { name, cost: cost || null, payload, error: null });
  }
  await unit.record(scope.run.jobId, {
    at: unit.now,
    type: "call",
    call: "step",
    ...one.call.fields,
    started_at: startedAt,
    result,
    attempts: attempt > 1 ? attempt : undefined,
    cost: cost > 0 ? cost : undefined,
  });
  scope.run.account(one);
  unit.afterwards((seq) => scope.run.deliveries.due(one.call, seq));
}

async function recordFailure<T>(
  unit: Unit,
  { scope, name, show }: StepCall<T>,
  one: StepUnderWay,
  { startedAt, error, pause }: { startedAt: string; error: unknown; pause: number | undefined },
): Promise<void> {
  const { run } = scope;
  const { attempt, cost } = one;
  const isFinal = pause === undefined;
  const failure = toRecordedError(error);
  const { redact } = run.parts;
  const message = shorten(redact(failure.message), LONGEST_MESSAGE);
  const stack = failure.stack && shorten(redact(failure.stack), LONGEST_STACK);
  const entry = { ...one.call.fields, started_at: startedAt };
  const charge = cost > 0 ? { cost } : {};
  const payload = { attempt, ...(!isFinal && { retried: true }) };
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
        }
      : { type: "attempt", ...entry, attempt, error: message, next_at: later(run, pause), ...charge },
  );
  run.account(one);
  if (isFinal) unit.afterwards((seq) => run.deliveries.due(one.call, seq));
}

function later(run: Run, milliseconds: number): string {
  return new Date(run.parts.clock().getTime() + milliseconds).toISOString();
}

/** What the function of a step without a limit of time is told. */
class Told extends WithSignal implements StepInfo {
  readonly attempt: number;
  readonly idempotencyKey: string;

  constructor(run: Run, attempt: number, idempotencyKey: string) {
    super(run);
    this.attempt = attempt;
    this.idempotencyKey = idempotencyKey;
  }
}

/** Calls the step's function, with its limit of time. */
function invoke<T>({ scope, name, fn, options }: StepCall<T>, one: StepUnderWay): T | Promise<T> {
  const { run } = scope;
  const { call, attempt } = one;
  const idempotencyKey = scope.idempotencyKey(call);
  if (options.timeout === undefined) {
    return run.activity.inside(one, fn, new Told(run, attempt, idempotencyKey));
  }
  const own = new AbortController();
  const signal = AbortSignal.any([run.signal, own.signal]);
  return new Promise<T>((resolve, reject) => {
    const stop = run.parts.startTimer(toMilliseconds(options.timeout!), () => {
      const error = new Error(`Step "${name}" took longer than ${options.timeout}${unit(options.timeout)}`);
      own.abort(error);
      reject(error);
    });
    Promise.resolve(run.activity.inside(one, fn, { attempt, idempotencyKey, signal }))
      .then(resolve, reject)
      .finally(stop);
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

/** Milliseconds to wait before each next try. */
class Pauses {
  readonly #most: number;
  readonly #factor: number;
  #next: number;

  /** After `failed` tries. */
  constructor(
    { initial = 1, max = 60, factor = 2 }: NonNullable<StepOptions["backoff"]> = {},
    failed: number,
  ) {
    this.#most = toMilliseconds(max);
    this.#factor = factor;
    this.#next = toMilliseconds(initial) * factor ** failed;
  }

  next(): number {
    const next = Math.min(this.#next, this.#most);
    this.#next *= this.#factor;
    return next;
  }

  /** What is left of the pause that began before a restart; where the clock was set back, no more than a whole one. */
  left(until: string, now: Date): number {
    return Math.min(Date.parse(until) - now.getTime(), this.#next / this.#factor, this.#most);
  }
}

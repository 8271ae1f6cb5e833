import type { Unit } from "../../entities/ledger.ts";
import { messageOf } from "../../error-text.ts";
import { toMilliseconds } from "../duration.ts";
import { toJsonValue } from "../json-value.ts";
import type { StepFunction, StepInfo, StepOptions } from "../run-context.ts";
import type { CallScope } from "./call-scope.ts";
import { readCost } from "./cost.ts";
import type { Run, StepUnderWay } from "./run.ts";
import { fromRecordedError, StepFailedError, toRecordedError } from "./run-errors.ts";
import { toShown } from "./shown-result.ts";
import { startTimer } from "./timer.ts";
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
export async function runStep<T>(call: StepCall<T>): Promise<T> {
  const { scope, name, options } = call;
  const { run } = scope;
  const { position, recorded } = scope.take("step", name);
  if (recorded?.error) {
    throw new StepFailedError(name, recorded.attempts ?? 1, fromRecordedError(recorded.error));
  }
  if (recorded) return recorded.result as T;

  const retries = options.retries ?? 0;
  const cost = readCost(options.cost, `Step "${name}"`);
  let failed = scope.record.tries.get(position)?.failed ?? 0;
  let pauses: ReturnType<typeof backoff> | undefined;
  for (let attempt = scope.nextAttempt(position); ; attempt++) {
    await run.enter();
    run.stopAt(run.limits.reserve(cost, name));
    const underWay = { caseId: scope.caseId, position, name, attempt, cost, isRecorded: false };
    const waiting = run.begin(underWay);
    if (waiting) await waiting;
    const tried = await tryOnce(call, underWay, failed >= retries);
    if (tried.ok) return tried.value;
    if (tried.isFinal) throw new StepFailedError(name, attempt, tried.error);
    failed++;
    pauses ??= backoff(options.backoff);
    const pause = pauses.next().value as number;
    await run.orEnd(() => new Promise<void>((resolve) => void run.after(pause, resolve)));
  }
}

type Tried<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: unknown; readonly isFinal: boolean };

async function tryOnce<T>(call: StepCall<T>, one: StepUnderWay, isLast: boolean): Promise<Tried<T>> {
  const { run } = call.scope;
  const startedAt = run.parts.ledger.now();
  try {
    const value = await run.orEnd(() => invoke(call, one));
    const result = toRecord(value, call.name);
    await run.write((unit) => recordResult(unit, call, one, { startedAt, result }));
    // As it will come back from the record, so that the first run and a later one see the same.
    return { ok: true, value: result as T };
  } catch (error) {
    // The run has ended: what is under way is accounted for when it is finished.
    if (run.isInterrupted || run.isSealed) throw error;
    const isFinal = isLast || error instanceof UnrecordableError;
    await run.write((unit) => recordFailure(unit, call, one, { startedAt, error, isFinal }));
    return { ok: false, error, isFinal };
  } finally {
    run.done(one);
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
    case_id: scope.caseId,
    position: one.position,
    name,
    started_at: startedAt,
    result,
    attempts: attempt > 1 ? attempt : undefined,
    cost: cost > 0 ? cost : undefined,
  });
  scope.run.account(one);
}

async function recordFailure<T>(
  unit: Unit,
  { scope, name, show }: StepCall<T>,
  one: StepUnderWay,
  { startedAt, error, isFinal }: { startedAt: string; error: unknown; isFinal: boolean },
): Promise<void> {
  const { run } = scope;
  const { position, attempt, cost } = one;
  const failure = toRecordedError(error);
  const message = run.parts.redact(failure.message);
  const stack = failure.stack && run.parts.redact(failure.stack);
  const entry = { ...scope.at, position, name, started_at: startedAt };
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
      : { type: "attempt", ...entry, attempt, error: message, ...charge },
  );
  run.account(one);
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
  const { position, attempt } = one;
  const idempotencyKey = scope.idempotencyKey(position);
  if (options.timeout === undefined) {
    return run.inside(one, fn, new Told(run, attempt, idempotencyKey));
  }
  const own = new AbortController();
  const signal = AbortSignal.any([run.signal, own.signal]);
  return new Promise<T>((resolve, reject) => {
    const stop = startTimer(toMilliseconds(options.timeout!), () => {
      const error = new Error(`Step "${name}" took longer than ${options.timeout}${unit(options.timeout)}`);
      own.abort(error);
      reject(error);
    });
    Promise.resolve(run.inside(one, fn, { attempt, idempotencyKey, signal }))
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
function* backoff({ initial = 1, max = 60, factor = 2 }: NonNullable<StepOptions["backoff"]> = {}) {
  const most = toMilliseconds(max);
  for (let pause = toMilliseconds(initial); ; pause *= factor) yield Math.min(pause, most);
}

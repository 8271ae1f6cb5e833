import type { Unit } from "../../entities/ledger.ts";
import type { JobInstructions } from "../../models/job-instructions.ts";
import type { CallEntry } from "../../models/run-entry.ts";
import type { Call } from "./call.ts";
import type { RunEnd } from "./run-errors.ts";
import type { RunLife } from "./run-life.ts";
import { costOf, type StepUnderWay } from "./step-under-way.ts";

/** Sums of decimal fractions are off by less than this. */
const ROUNDING = 1e-9;

/** What the record says about the limits. */
interface Used extends UsedTime {
  readonly cases: { readonly size: number };
  readonly spent: number;
}

/** What the record says about the time. */
export interface UsedTime {
  /** Milliseconds of the spans that have ended. */
  readonly elapsed: number;
  /** How many those are, also before the job was started over. */
  readonly spans: number;
  /** When the present one began, and the first one. */
  readonly since: string | undefined;
  readonly began: string | undefined;
}

/** What its limits need of a run. */
interface LimitedRun {
  readonly record: Used;
  readonly life: RunLife;
  readonly parts: { readonly instructions: JobInstructions | null; readonly clock: () => Date };
  end(end: RunEnd): void;
}

/** What a call has stored, as far as a limit may be reached by it. */
export interface Reported {
  readonly name: string;
  readonly cost?: number;
  /** The agent reported an error, or a case failed. */
  readonly error?: string | null | undefined;
  /** A case failed because nobody answered its question in time. */
  readonly expired?: string | undefined;
  readonly warning?: boolean | null | undefined;
}

/** What a job has used of its limits. Every answer that is not `undefined` says why the run must end. */
export class Limits {
  readonly #run: LimitedRun;
  /** The limit that was reached by what is stored: it counts also where the handler has just finished. */
  reached: RunEnd | undefined;
  readonly #given: JobInstructions | null;
  readonly #clock: () => Date;
  readonly #elapsed: number;
  readonly #since: number;
  /** Milliseconds that the present span had when this process took the job up, and when that was by a clock that nobody sets. */
  readonly #before: number;
  readonly #takenUpAt = performance.now();
  #cases: number;
  #spent: number;
  #reserved = 0;

  constructor(run: LimitedRun) {
    const { record, parts } = run;
    const { instructions: given, clock } = parts;
    this.#run = run;
    this.#given = given;
    this.#clock = clock;
    this.#cases = record.cases.size;
    this.#spent = record.spent;
    this.#elapsed = record.elapsed;
    const now = clock().getTime();
    this.#since = sinceWhen(record, given, now);
    this.#before = Math.max(0, now - this.#since);
  }

  /** What was spent so far. */
  get spent(): number {
    return clean(this.#spent);
  }

  /** Sets the cost of a step aside before it begins. */
  reserve(cost: number, name: string): RunEnd | undefined {
    const most = this.#given?.max_cost ?? undefined;
    const before = this.#spent + this.#reserved;
    if (most !== undefined && before + cost > most + ROUNDING) {
      return limit(
        "max_cost",
        `step "${name}" would bring the cost from ${clean(before)} to ${clean(before + cost)}, over max_cost ${most}`,
      );
    }
    this.#reserved += cost;
    return undefined;
  }

  /** Turns what was set aside for a step into what it has cost: once, when its record is stored, or its end without one. */
  account(step: StepUnderWay): void {
    if (step.isRecorded) return;
    step.isRecorded = true;
    this.#reserved -= step.cost;
    this.#spent += costOf(step);
  }

  /** Counts a cost that became known only later. */
  spend(cost: number): void {
    this.#spent += cost;
  }

  /** Ends the run where there is a reason to, by throwing. */
  stopAt(end: RunEnd | undefined): void {
    if (!end) return;
    this.#run.end(end);
    throw this.#run.life.error;
  }

  /**
   * The limit that is reached by what a call stores in this unit, for its entry: it ends the run as soon as that is stored,
   * and each later run that is given the entry, until the job's end is stored. `cost` is not counted yet.
   */
  endsBy(unit: Unit, call: Call, reported: Reported): Pick<CallEntry, "ends"> {
    unit.afterwards(() => {
      // Others may have spent something meanwhile.
      call.ends = this.#reachedBy(reported);
      if (!call.ends) return;
      this.reached ??= call.ends;
      this.#run.end(call.ends);
    });
    const end = this.#reachedBy(reported);
    return end ? { ends: { reason: end.reason, message: end.message } } : {};
  }

  #reachedBy({ name, cost = 0, error, expired, warning }: Reported): RunEnd | undefined {
    const most = this.#given?.max_cost ?? undefined;
    const spent = this.#spent + cost;
    if (cost > 0 && most !== undefined && spent > most + ROUNDING) {
      const over = clean(spent - most);
      return limit(
        "max_cost",
        `"${name}" brought the cost to ${clean(spent)}, ${over} over max_cost ${most}`,
      );
    }
    if (error && (this.#given?.stop_on_error ?? true))
      return limit("stop_on_error", `stop_on_error: ${error}`);
    if (expired && (this.#given?.stop_on_error ?? true))
      return { to: "failed", reason: "question_expired", message: expired };
    if (warning && this.#given?.stop_on_warning)
      return limit("stop_on_warning", `stop_on_warning: "${name}" is a warning`);
    return undefined;
  }

  /** Counts a new case. */
  openCase(ref: string): RunEnd | undefined {
    const most = this.#given?.max_cases ?? undefined;
    if (most !== undefined && this.#cases + 1 > most) {
      return limit("max_cases", `case "${ref}" would be number ${this.#cases + 1}, over max_cases ${most}`);
    }
    this.#cases++;
    return undefined;
  }

  /** The time is up. */
  duration(): RunEnd | undefined {
    const most = this.#given?.max_duration ?? undefined;
    if (most === undefined) return undefined;
    const used = this.#used() / 1000;
    if (used < most) return undefined;
    return limit("max_duration", `it has taken ${Math.round(used * 10) / 10} s, max_duration is ${most} s`);
  }

  /** Milliseconds until the time is up. */
  timeLeft(): number | undefined {
    const most = this.#given?.max_duration ?? undefined;
    if (most === undefined) return undefined;
    return most * 1000 - this.#used();
  }

  /** Milliseconds that the job has taken. The time of day counts what the process slept through, and may be set back. */
  #used(): number {
    const here = this.#before + performance.now() - this.#takenUpAt;
    return this.#elapsed + Math.max(here, this.#clock().getTime() - this.#since);
  }
}

/** When the present span began, milliseconds since 1970: in the job's first one, the caller's start counts where it is earlier. */
function sinceWhen({ since, spans }: UsedTime, given: JobInstructions | null, now: number): number {
  const began = since === undefined ? now : Date.parse(since);
  const start = given?.job_start_time;
  return typeof start === "number" && spans === 0 ? Math.min(began, start * 1000) : began;
}

/** Milliseconds that a job has taken of its `max_duration`: what it waited for its turn, was held or had ended does not count. */
export function timeTaken(record: UsedTime, given: JobInstructions | null, now: Date): number {
  const { elapsed, spans, since, began } = record;
  const time = now.getTime();
  if (since !== undefined) return elapsed + Math.max(0, time - sinceWhen(record, given, time));
  if (spans !== 1 || began === undefined) return elapsed;
  return elapsed + Date.parse(began) - sinceWhen({ ...record, since: began, spans: 0 }, given, time);
}

function limit(reason: RunEnd["reason"], what: string): RunEnd {
  return { to: "failed", reason, message: `The job was ended by its limits: ${what}` };
}

/** Without the noise of adding decimal fractions. */
export function clean(amount: number): number {
  return amount === 0 ? 0 : Number(amount.toPrecision(12));
}

/** A cost that an agent reports for something; none is 0. */
export function readCost(cost: number | null | undefined, what: string): number {
  if (cost === undefined || cost === null) return 0;
  if (Number.isFinite(cost) && cost >= 0) return cost;
  throw new TypeError(`${what} has the cost ${cost}: it must be a number, 0 or more`);
}

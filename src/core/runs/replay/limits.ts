import type { JobInstructions } from "../../models/job-instructions.ts";
import type { RunEnd } from "./run-errors.ts";

/** Sums of decimal fractions are off by less than this. */
const ROUNDING = 1e-9;

/** What the record says about the limits. */
interface Used {
  readonly cases: { readonly size: number };
  readonly spent: number;
  /** Milliseconds of the spans that have ended. */
  readonly elapsed: number;
  /** When the present one began. */
  readonly since: string | undefined;
}

/** What a call has stored, as far as a limit may be reached by it. */
export interface Told {
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

  constructor(given: JobInstructions | null, record: Used, clock: () => Date) {
    this.#given = given;
    this.#clock = clock;
    this.#cases = record.cases.size;
    this.#spent = record.spent;
    this.#elapsed = record.elapsed;
    const now = clock().getTime();
    const since = record.since === undefined ? now : Date.parse(record.since);
    const told = given?.job_start_time;
    // The caller's start counts where it is earlier and this is the job's first span.
    this.#since = typeof told === "number" && this.#elapsed === 0 ? Math.min(since, told * 1000) : since;
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

  /** Turns what was set aside into what was spent. */
  settle(reserved: number, spent: number): void {
    this.#reserved -= reserved;
    this.#spent += spent;
  }

  /** Counts a cost that became known only later. */
  spend(cost: number): void {
    this.#spent += cost;
  }

  /** The limit that is reached by what a call has stored; `cost` is not counted yet. */
  reachedBy({ name, cost = 0, error, expired, warning }: Told): RunEnd | undefined {
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

import { Cron } from "croner";

/**
 * The times of a cron pattern, in milliseconds since 1970. Where the clocks go forward, a time that does not exist
 * comes at the end of the gap; where they go back, a time that exists twice comes once. Patterns with `*` or a step in
 * their hours, minutes or seconds follow the real time instead: nothing in the gap, and both passes.
 */
export class PlannedTimes {
  readonly #cron: Cron;

  /** Throws where the pattern or the time zone is invalid, or the pattern has no time at all. */
  constructor(pattern: string, timezone: string) {
    // The parser takes other texts for the one date that they name.
    if (!/^(@[a-z]+|\S+(\s+\S+){4,5})$/i.test(pattern.trim())) {
      throw new TypeError(
        'must have 5 fields, or 6 with seconds, such as "0 3 * * *", or be such as "@daily"',
      );
    }
    try {
      new Intl.DateTimeFormat("en", { timeZone: timezone });
    } catch {
      throw new TypeError(
        `has the time zone "${timezone}", which is unknown: use a name such as "Europe/Paris"`,
      );
    }
    this.#cron = new Cron(pattern.trim(), { timezone, mode: "5-or-6-parts", fixedTimeRule: "no-wildcard" });
    if (this.#cron.nextRun(new Date(0)) === null) throw new TypeError("has no time that ever comes");
  }

  /** The first one after a time. */
  after(time: number): number | undefined {
    return this.#cron.nextRun(new Date(time))?.getTime();
  }

  /** The last one that is not after a time. */
  upTo(time: number): number | undefined {
    // Times are whole seconds, and the parser gives those before a time.
    return this.#cron.previousRuns(1, new Date(Math.floor(time / 1000) * 1000 + 1000))[0]?.getTime();
  }
}

/** Which planned times become jobs that could not when they were due; milliseconds that a time may be late. */
export interface CatchUp {
  readonly window: number;
  /** Whether of those that are later still, the last one becomes a job where there is none in the window. */
  readonly latest: boolean;
}

/** A planned time that is due. */
export interface Due {
  readonly at: number;
  /** Whether it is too late for a job. */
  readonly isMissed: boolean;
  /** The first of the times before it that become nothing. */
  readonly leftOut: number | undefined;
}

/** The next of the times after `after` that is to be decided at `now`. */
export function nextDue(
  times: PlannedTimes,
  { after, now, catchUp }: { readonly after: number; readonly now: number; readonly catchUp: CatchUp },
): Due | undefined {
  const first = times.after(after);
  if (first === undefined || first > now) return undefined;
  const due = (at: number, isMissed = false): Due => ({
    at,
    isMissed,
    leftOut: first < at ? first : undefined,
  });
  const inWindow = times.after(Math.max(after, now - catchUp.window - 1));
  if (inWindow !== undefined && inWindow <= now) return due(inWindow);
  return due(times.upTo(now)!, !catchUp.latest);
}

/** Node's timers fire immediately beyond this. */
const LONGEST = 2 ** 31 - 1;

/**
 * What a timer measures, if not a wait of a job: `"schedule"` is a time of day that no job waits for; `"running"` is how
 * long something runs, which does not depend on the time of day.
 */
export type TimerPurpose = "schedule" | "running";

/** Calls `fn` after `milliseconds`, which may be months; the result cancels it. */
export type StartTimer = (milliseconds: number, fn: () => void, purpose?: TimerPurpose) => () => void;

/** Measures how long something runs: what the machine slept does not count. What waits uses `WallTimers`. */
export const startTimer: StartTimer = (milliseconds, fn) => {
  let timer: NodeJS.Timeout | undefined;
  const arm = (left: number): void => {
    const now = Math.min(left, LONGEST);
    timer = setTimeout(() => (left > now ? arm(left - now) : fn()), Math.max(now, 0));
    // A wait must not keep a process alive that has nothing else to do.
    timer.unref();
  };
  arm(milliseconds);
  return () => clearTimeout(timer);
};

/** Node's timers fire immediately beyond this. */
const LONGEST = 2 ** 31 - 1;

/**
 * Calls `fn` after `milliseconds`, which may be months; the result cancels it. `purpose` is `"schedule"` for a timer that
 * no job waits for.
 */
export type StartTimer = (milliseconds: number, fn: () => void, purpose?: "schedule") => () => void;

/** By the time of the system. */
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

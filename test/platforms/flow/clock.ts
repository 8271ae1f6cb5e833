/** A clock that moves on by what is waited, so that waiting takes no time. */
export function quickClock() {
  let slept = 0;
  const begun = Date.now();
  return {
    now: () => new Date(Math.max(Date.now(), begun + slept)),
    sleep: async (milliseconds: number, signal: AbortSignal) => {
      signal.throwIfAborted();
      slept += milliseconds;
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

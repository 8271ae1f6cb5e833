/** Time as the store needs it; injected, so that crash tests can be repeated exactly. */
export interface Timers {
  /** Monotonic milliseconds. */
  now(): number;
  /** Calls `work` after a while; the returned function cancels that. Does not keep the process alive. */
  after(milliseconds: number, work: () => void): () => void;
}

export const nodeTimers: Timers = {
  now: () => performance.now(),
  after: (milliseconds, work) => {
    const timer = setTimeout(work, milliseconds).unref();
    return () => clearTimeout(timer);
  },
};

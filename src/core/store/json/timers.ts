/** Time as the store needs it; handed in, so that crash tests can be repeated exactly. */
export interface Timers {
  /** Milliseconds that only ever grow. */
  now(): number;
  /** Calls `work` after a while; the function it returns prevents that. Keeps no process alive. */
  after(milliseconds: number, work: () => void): () => void;
}

export const nodeTimers: Timers = {
  now: () => performance.now(),
  after: (milliseconds, work) => {
    const timer = setTimeout(work, milliseconds).unref();
    return () => clearTimeout(timer);
  },
};

const SIGNALS = { SIGHUP: 129, SIGINT: 130, SIGQUIT: 131, SIGTERM: 143, SIGUSR2: 140 } as const;
/**
 * Ctrl-C reaches a process that npm started twice, from the terminal and from npm: signals within this many
 * milliseconds count as one.
 */
const ECHO = 500;

/**
 * A pending stop: resolves at the first stop signal; a second signal (not an echo of the first) ends the
 * process immediately.
 */
export interface StopSignal {
  readonly received: Promise<void>;
  /** Ends the wait without a signal. */
  end(): void;
  /** Restores the default signal handling. */
  release(): void;
}

/** Waits for a stop signal. */
export function listenForStop(onFirst: (signal: string) => void): StopSignal {
  let resolve = (): void => {};
  let firstAt: number | undefined;
  const received = new Promise<void>((done) => {
    resolve = done;
  });
  const listener = (signal: NodeJS.Signals): void => {
    const now = performance.now();
    if (firstAt !== undefined && now - firstAt < ECHO) return;
    if (firstAt !== undefined) process.exit(SIGNALS[signal as keyof typeof SIGNALS]);
    firstAt = now;
    onFirst(signal);
    resolve();
  };
  for (const signal of Object.keys(SIGNALS)) process.on(signal, listener);
  return {
    received,
    end: () => resolve(),
    release: () => {
      for (const signal of Object.keys(SIGNALS)) process.off(signal, listener);
    },
  };
}

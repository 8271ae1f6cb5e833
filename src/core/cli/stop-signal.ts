const SIGNALS = { SIGINT: 130, SIGTERM: 143 } as const;

/** A pending end: resolves at the first SIGINT or SIGTERM; the second one ends the process at once. */
export interface StopSignal {
  readonly received: Promise<void>;
  /** Hands the signals back. */
  release(): void;
}

/** Waits for the process to be told to end. */
export function listenForStop(onFirst: (signal: string) => void): StopSignal {
  let resolve = (): void => {};
  let count = 0;
  const received = new Promise<void>((done) => {
    resolve = done;
  });
  const listener = (signal: NodeJS.Signals): void => {
    count++;
    if (count > 1) process.exit(SIGNALS[signal as keyof typeof SIGNALS]);
    onFirst(signal);
    resolve();
  };
  for (const signal of Object.keys(SIGNALS)) process.on(signal, listener);
  return {
    received,
    release: () => {
      for (const signal of Object.keys(SIGNALS)) process.off(signal, listener);
    },
  };
}

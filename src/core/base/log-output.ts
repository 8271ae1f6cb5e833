/** Bytes that may wait for a reader that has stopped reading: a pipe takes them into memory without a limit. */
const MOST_WAITING = 4 * 1024 * 1024;

/** What is used of a stream of the process. */
export interface LogStream {
  readonly writableLength: number;
  write(text: string, done: (error?: Error | null) => void): unknown;
  on(event: "error", listener: (error: Error) => void): unknown;
}

/**
 * Writes the lines of a log to a stream that may break or fill up: a full disk, a closed pipe, a reader that has
 * stopped. Lines that it does not take are lost, and nothing else: no error reaches the service, and lines are written
 * again as soon as that is possible.
 */
export class LogOutput {
  readonly #stream: () => LogStream;
  /** Called when lines are written again, with how many were lost since the start. */
  readonly #onRecovery: (lost: number) => void;
  #known: LogStream | undefined;
  #lost = 0;
  #isLosing = false;

  constructor(stream: () => LogStream, onRecovery: (lost: number) => void) {
    this.#stream = stream;
    this.#onRecovery = onRecovery;
  }

  readonly write = (line: string): void => {
    const stream = this.#open();
    if (stream.writableLength > MOST_WAITING) {
      this.#lose();
      return;
    }
    stream.write(line, (error) => {
      if (error) this.#lose();
      else if (this.#isLosing && stream.writableLength <= MOST_WAITING / 2) {
        this.#isLosing = false;
        this.#onRecovery(this.#lost);
      }
    });
  };

  #lose(): void {
    this.#lost++;
    this.#isLosing = true;
  }

  /** Without a listener, an error of the stream would end the process, or be logged, which fails again. */
  #open(): LogStream {
    if (this.#known === undefined) {
      this.#known = this.#stream();
      this.#known.on("error", () => {});
    }
    return this.#known;
  }
}

/** Result of a finished process. */
export interface ExecResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Standard input of a process, whole or piece by piece. */
export type ExecInput = string | Uint8Array | AsyncIterable<Uint8Array>;

export interface ExecOptions {
  readonly cwd?: string;
  /** Variables besides those of the deploy itself. */
  readonly env?: Readonly<Record<string, string>>;
  /** Standard input: the way for a password, never an argument; in pieces where it is large. */
  readonly input?: ExecInput;
  readonly signal?: AbortSignal;
  readonly onLine?: (line: string) => void;
}

/** One journalled call that changes the world. */
export interface JournalStep {
  /** What it does, unique within the deployment, such as `service.create`. */
  readonly step: string;
  /** Whatever a resumed run needs to find the call again: operation names, tokens. Never a secret. */
  readonly data?: Readonly<Record<string, unknown>>;
}

/** What the engine hands to a platform: processes, network, time, and its journal. */
export interface DeployTools {
  /** Runs a program without a shell; rejects where it cannot be started, resolves with its code otherwise. */
  exec(command: string, args: readonly string[], options?: ExecOptions): Promise<ExecResult>;
  /** `fetch` that ends with the step under way: on Ctrl-C, and when its time is up. */
  readonly fetch: typeof fetch;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Fires on Ctrl-C and when the time of the step under way is up; its reason is the `DeployError` to throw. */
  readonly signal: AbortSignal;
  now(): Date;
  /** Waits; rejects with the signal's reason when it fires. */
  sleep(milliseconds: number): Promise<void>;
  /** A new random identifier, for idempotency keys. */
  newId(): string;
  /** Says something about the step under way; shown in its place in the progress tree. */
  report(message: string): void;
  /**
   * Imports an optional package, or rejects with the command that installs it, and with it those of `together` that are
   * missing too: a person is to be asked once.
   */
  importPeer<T>(name: string, together?: readonly string[]): Promise<T>;
  /** Writes an entry before a call that changes the world, and what came of it afterwards. Never skips the call. */
  journal<T>(
    step: JournalStep,
    call: (note: (data: Record<string, unknown>) => Promise<void>) => Promise<T>,
  ): Promise<T>;
  /** Data and notes that an earlier, unfinished run left for a step, whether or not the step came to its end. */
  recall(step: string): Readonly<Record<string, unknown>> | undefined;
  /** Makes sure that a value never reaches output, logs or files. */
  redact(secret: string): void;
}

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
  /** Variables besides those of the deploy itself; undefined removes one of these. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Standard input: use it for a password, never an argument; in pieces if it is large. */
  readonly input?: ExecInput;
  readonly signal?: AbortSignal;
  readonly onLine?: (line: string) => void;
}

/** One journaled call with an external effect. */
export interface JournalStep {
  /** Name of the call, unique within the deployment, such as `service.create`. */
  readonly step: string;
  /** Whatever a resumed run needs to find the call again: operation names, tokens. Never a secret. */
  readonly data?: Readonly<Record<string, unknown>>;
}

/** What the engine passes to a platform: processes, network, time, and its journal. */
export interface DeployTools {
  /**
   * Runs a program without a shell; rejects if it cannot be started, otherwise resolves with its exit code.
   */
  exec(command: string, args: readonly string[], options?: ExecOptions): Promise<ExecResult>;
  /** `fetch` that is aborted with the current step: on Ctrl-C, and at its time limit. */
  readonly fetch: typeof fetch;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Fires on Ctrl-C and at the time limit of the current step; its reason is the `DeployError` to throw. */
  readonly signal: AbortSignal;
  now(): Date;
  /** Waits; rejects with the signal's reason when it fires. */
  sleep(milliseconds: number): Promise<void>;
  /** A new random identifier, for idempotency keys. */
  newId(): string;
  /** Reports a message about the current step; shown in the progress tree. */
  report(message: string): void;
  /**
   * Imports an optional package, or rejects with the command that installs it, together with all missing
   * packages of `together`, so that the user is asked once.
   */
  importPeer<T>(name: string, together?: readonly string[]): Promise<T>;
  /**
   * Writes an entry before a call with an external effect, and its outcome after it. Never skips the call.
   */
  journal<T>(
    step: JournalStep,
    call: (note: (data: Record<string, unknown>) => Promise<void>) => Promise<T>,
  ): Promise<T>;
  /** Data and notes that an earlier, unfinished run left for a step, whether or not the step finished. */
  recall(step: string): Readonly<Record<string, unknown>> | undefined;
  /** Makes sure that a value never reaches output, logs or files. */
  redact(secret: string): void;
}

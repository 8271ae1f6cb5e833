/** An invalid command line: exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
  /** What was probably meant, or where to read more. */
  readonly hint: string | undefined;
  /** The command whose help says more, such as `svc init`, where it is known. */
  command: string | undefined;

  constructor(message: string, hint?: string) {
    super(message);
    this.hint = hint;
  }
}

export interface CliErrorOptions {
  /** What to do next. */
  readonly detail?: string;
  /** @default 1 */
  readonly exitCode?: number;
  readonly cause?: unknown;
}

/** A failed command, described for the person who ran it. */
export class CliError extends Error {
  override readonly name = "CliError";
  readonly detail: string | undefined;
  readonly exitCode: number;

  constructor(message: string, options: CliErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.detail = options.detail;
    this.exitCode = options.exitCode ?? 1;
  }
}

import { messageOf } from "../core/base/error-text.ts";
/** How `svc deploy` ends: the process's exit code by outcome. */
export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  changesPending: 2,
  rolledBack: 3,
  timedOut: 4,
  preflight: 5,
  locked: 6,
  openWork: 7,
  heldJobs: 8,
} as const;

/** Exit code each kind of deployment error ends the command with. */
const EXIT_OF = {
  failed: EXIT.failed,
  build_failed: EXIT.failed,
  unhealthy: EXIT.failed,
  not_deployed: EXIT.failed,
  usage: EXIT.usage,
  bad_config: EXIT.usage,
  bad_code: EXIT.usage,
  declined: EXIT.failed,
  rolled_back: EXIT.rolledBack,
  timed_out: EXIT.timedOut,
  interrupted: EXIT.timedOut,
  preflight: EXIT.preflight,
  missing_package: EXIT.preflight,
  missing_program: EXIT.preflight,
  unreachable: EXIT.preflight,
  login_expired: EXIT.preflight,
  locked: EXIT.locked,
  superseded: EXIT.locked,
  open_work: EXIT.openWork,
  held_jobs: EXIT.heldJobs,
} as const;
export type DeployErrorCode = keyof typeof EXIT_OF;

export interface DeployErrorOptions {
  /** The provider's own message, including its error code. */
  detail?: string | undefined;
  /** The current state, in the cloud or on this machine. */
  outcome?: string | undefined;
  /** What to do: a command or a sentence. */
  fix?: string | undefined;
  /** Last lines of the log that shows the cause. */
  log?: readonly string[] | undefined;
  /** Machine-readable details: included in the JSON of the failure. */
  facts?: Readonly<Record<string, unknown>> | undefined;
  cause?: unknown;
}

/**
 * A failed deployment: what failed, the provider's message, the outcome and what to do.
 *
 * @example
 * throw new DeployError("failed", `Service "${name}" was not created`, { detail: "403 PERMISSION_DENIED: …", fix: "…" });
 */
export class DeployError extends Error {
  override readonly name = "DeployError";
  readonly code: DeployErrorCode;
  readonly detail: string | undefined;
  readonly outcome: string | undefined;
  readonly fix: string | undefined;
  readonly log: readonly string[];
  readonly facts: Readonly<Record<string, unknown>>;

  constructor(code: DeployErrorCode, message: string, options: DeployErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.detail = options.detail;
    this.outcome = options.outcome;
    this.fix = options.fix;
    this.log = options.log ?? [];
    this.facts = options.facts ?? {};
  }

  get exitCode(): number {
    return EXIT_OF[this.code];
  }

  /** This error with an outcome and a fix, if it has none. */
  with(options: { outcome?: string; fix?: string; code?: DeployErrorCode }): DeployError {
    return new DeployError(options.code ?? this.code, this.message, {
      detail: this.detail,
      outcome: this.outcome ?? options.outcome,
      fix: this.fix ?? options.fix,
      log: this.log,
      facts: this.facts,
      cause: this.cause,
    });
  }
}

/** Recognizes a `DeployError`, including one from another copy of this package. */
export function isDeployError(error: unknown): error is DeployError {
  return error instanceof Error && error.name === "DeployError" && "code" in error && "exitCode" in error;
}

/** Any thrown value as a `DeployError`, keeping its message. */
export function toDeployError(error: unknown, message: string): DeployError {
  if (isDeployError(error)) return error;
  return new DeployError("failed", message, {
    detail: messageOf(error),
    cause: error,
  });
}

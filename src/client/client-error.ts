import type { ErrorType } from "../core/models/error-response.ts";
import type { StopReason } from "../core/models/job.ts";

/** Why a call failed: the service's own code, or `unreachable` if no service answered. */
export type ClientErrorCode = ErrorType | "unreachable";

/** A call that failed. The message is the service's. */
export class ClientError extends Error {
  override readonly name = "ClientError";
  readonly code: ClientErrorCode;
  /** HTTP status; 0 if there was no response. */
  readonly status: number;
  /** What to do next. */
  readonly detail: string | undefined;
  /** Seconds after which the service wants to be asked again. */
  readonly retryAfter: number | undefined;

  constructor(
    code: ClientErrorCode,
    message: string,
    options: {
      readonly status?: number | undefined;
      readonly detail?: string | undefined;
      readonly retryAfter?: number | undefined;
      readonly cause?: unknown;
    } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.status = options.status ?? 0;
    this.detail = options.detail;
    this.retryAfter = options.retryAfter;
  }
}

/** A job whose result was awaited ended as failed or cancelled. */
export class JobFailedError extends Error {
  override readonly name = "JobFailedError";
  readonly jobId: string;
  readonly status: "failed" | "cancelled";
  /** Such as `max_cost`, `stopped` or `error`. */
  readonly reason: StopReason | null;

  constructor(job: {
    readonly id: string;
    readonly status: "failed" | "cancelled";
    readonly error: string | null;
    readonly stop_reason: StopReason | null;
  }) {
    super(job.error ?? `Job "${job.id}" was ${job.status === "failed" ? "not successful" : "cancelled"}`);
    this.jobId = job.id;
    this.status = job.status;
    this.reason = job.stop_reason;
  }
}

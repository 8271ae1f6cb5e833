import type { ErrorResponse, ErrorType } from "../models/error-response.ts";

/** HTTP status of each error type, unless an error sets its own. */
const STATUS_OF: Readonly<Record<ErrorType, number>> = {
  job_not_found: 404,
  job_already_exists: 409,
  agent_not_found: 404,
  invalid_request: 422,
  internal_error: 500,
  invalid_parameters: 422,
  case_not_found: 404,
  not_found: 404,
  unauthorized: 401,
  forbidden: 403,
  invalid_transition: 409,
  payload_too_large: 413,
  unsupported_media_type: 415,
  rate_limited: 429,
  storage_error: 503,
  unavailable: 503,
};

export interface ServiceErrorOptions {
  /** What to do next. */
  detail?: string;
  /** @default the status of the error type */
  status?: number;
  /** Response headers, such as `Retry-After` or `Allow`. */
  headers?: Readonly<Record<string, string>>;
  cause?: unknown;
}

/** An error for users: the message names the thing, and `detail` says what to do next. */
export class ServiceError extends Error {
  override readonly name = "ServiceError";
  readonly type: ErrorType;
  readonly status: number;
  readonly detail: string | undefined;
  readonly headers: Readonly<Record<string, string>>;

  constructor(type: ErrorType, message: string, options: ServiceErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.type = type;
    this.status = options.status ?? STATUS_OF[type];
    this.detail = options.detail;
    this.headers = options.headers ?? {};
  }

  /** The error as the body of a response. */
  toResponse(now: Date): ErrorResponse {
    return {
      error: this.message,
      error_type: this.type,
      detail: this.detail ?? null,
      timestamp: now.toISOString(),
      status_code: this.status,
    };
  }
}

/** What happened and why, as text that a person reads. */
export function textOf({ message, detail }: Pick<ServiceError, "message" | "detail">): string {
  return [message, detail].filter(Boolean).join(". ");
}

/** Recognizes a `ServiceError`, including one from another copy of this package. */
export function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && error.name === "ServiceError" && "type" in error && "status" in error;
}

export interface CloudErrorOptions {
  /** HTTP status; 0 if there was no response. */
  readonly status: number;
  /** The provider's own code. */
  readonly code: string;
  /** More specific than the code, if the provider sends one. */
  readonly reason?: string | undefined;
  /** Milliseconds the provider asks to wait. */
  readonly retryAfter?: number | undefined;
  readonly cause?: unknown;
}

/** A provider's error, in its own words: `409 ABORTED: unable to queue the operation`. */
export class CloudError extends Error {
  override readonly name = "CloudError";
  readonly status: number;
  readonly code: string;
  readonly reason: string | undefined;
  readonly retryAfter: number | undefined;
  /** What the provider said, without status and code. */
  readonly text: string;

  constructor(text: string, options: CloudErrorOptions) {
    const head = options.status === 0 ? options.code : `${options.status} ${options.code}`;
    super(`${head}: ${text}`, options.cause === undefined ? undefined : { cause: options.cause });
    this.text = text;
    this.status = options.status;
    this.code = options.code;
    this.reason = options.reason;
    this.retryAfter = options.retryAfter;
  }
}

export function isCloudError(error: unknown): error is CloudError {
  return error instanceof CloudError;
}

/** Whether the same call may succeed a moment later: no response, too many requests, or a server error. */
export function isTransient(error: CloudError): boolean {
  const { status, code } = error;
  if (status === 0 || status === 408 || status === 429 || (status >= 500 && status !== 501)) return true;
  return /^(Throttl|TooManyRequests|RequestLimitExceeded|RequestThrottled|SlowDown)/.test(code);
}

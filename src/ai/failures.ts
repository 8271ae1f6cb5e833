import { RetryAfterError } from "../core/agents/retry-errors.ts";

/** Whether a call that failed may succeed later: libraries say so, or its status does. */
export function mayPass(error: unknown): boolean {
  const { isRetryable, status, statusCode } = (error ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof isRetryable === "boolean") return isRetryable;
  const code = status ?? statusCode;
  if (typeof code !== "number") return true;
  return code === 408 || code === 409 || code === 429 || code >= 500;
}

/** A provider may say how long to wait. */
export function withPause(error: unknown): unknown {
  const { responseHeaders, headers, status, statusCode } = (error ?? {}) as Readonly<Record<string, unknown>>;
  const given = toHeaders(responseHeaders ?? headers);
  if (!(error instanceof Error) || !given?.has("retry-after")) return error;
  const made = new RetryAfterError(error.message, given);
  return Object.assign(made, { cause: error, status: status ?? statusCode });
}

function toHeaders(given: unknown): Headers | undefined {
  if (given instanceof Headers) return given;
  if (typeof given !== "object" || given === null) return undefined;
  const texts = Object.entries(given).filter(
    (entry): entry is [string, string] => typeof entry[1] === "string",
  );
  return new Headers(texts);
}

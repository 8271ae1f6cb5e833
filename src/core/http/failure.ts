import { randomUUID } from "node:crypto";
import type { HTTPError } from "h3";
import { FastResponse } from "srvx";
import { isServiceError, ServiceError } from "../errors.ts";
import type { Logger } from "../log.ts";

/** What stands behind an error of h3: our own one, or what its status says; anything else hides its text. */
export function toServiceError(error: HTTPError, log: Logger): ServiceError {
  if (isServiceError(error)) return error;
  if (isServiceError(error.cause)) return error.cause;
  if (!error.unhandled && error.status === 400) {
    return new ServiceError("invalid_request", "The request cannot be read", {
      status: 400,
      detail: "Check the path's percent encoding and the request's headers.",
    });
  }
  if (!error.unhandled && error.status === 413) return tooLarge();
  return unexpected(error.cause ?? error, log);
}

/** The error for a body over the limit. */
export function tooLarge(limit?: number): ServiceError {
  const size = limit === undefined ? "the limit" : `${limit} bytes`;
  return new ServiceError("payload_too_large", `The request body is larger than ${size}`, {
    detail: "Send less at once, or raise the service's bodyLimit option.",
  });
}

/** An ErrorResponse as an HTTP answer. */
export function toErrorAnswer(error: ServiceError, now: Date): Response {
  return new FastResponse(JSON.stringify(error.toResponse(now)), {
    status: error.status,
    headers: {
      "content-type": "application/json; charset=utf-8",
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
      ...error.headers,
    },
  });
}

/** The text of an unexpected error can hold anything: it goes to the log, under an id that the answer names. */
function unexpected(cause: unknown, log: Logger): ServiceError {
  const id = randomUUID();
  log.error("a request failed", { error_id: id, error: cause });
  return new ServiceError("internal_error", "Something went wrong in the service", {
    detail: `Look for error id ${id} in the service's log.`,
    cause,
  });
}

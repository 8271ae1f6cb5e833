import { randomUUID } from "node:crypto";
import type { HTTPError } from "h3";
import { isServiceError, ServiceError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { Redactor } from "../base/redactor.ts";
import { jsonResponse } from "./answer.ts";

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

/** An ErrorResponse as an HTTP answer, without the secrets that are known. */
export function toErrorAnswer(error: ServiceError, now: Date, redactor: Redactor): Response {
  const body = error.toResponse(now);
  const clean = {
    ...body,
    error: redactor.text(body.error),
    detail: body.detail && redactor.text(body.detail),
  };
  return jsonResponse(clean, error.status, error.headers);
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

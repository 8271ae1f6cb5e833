import { randomUUID } from "node:crypto";
import type { HTTPError } from "h3";
import { isServiceError, ServiceError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { Redactor } from "../base/redactor.ts";
import { jsonResponse } from "./answer.ts";

/** The error inside an h3 error: our own one, or one for its status; the text of anything else is hidden. */
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
    detail: "Send a smaller body, or raise the service's bodyLimit option.",
  });
}

/** An ErrorResponse as an HTTP response, without known secrets. */
export function toErrorAnswer(error: ServiceError, now: Date, redactor: Redactor): Response {
  const body = error.toResponse(now);
  const clean = {
    ...body,
    error: redactor.text(body.error),
    detail: body.detail && redactor.text(body.detail),
  };
  return jsonResponse(clean, error.status, error.headers);
}

/**
 * The text of an unexpected error can contain anything: it is logged, under an id that the response contains.
 */
function unexpected(cause: unknown, log: Logger): ServiceError {
  const id = randomUUID();
  log.error("a request failed", { error_id: id, error: cause });
  return new ServiceError("internal_error", "Internal error", {
    detail: `Search the service's log for error id ${id}.`,
    cause,
  });
}

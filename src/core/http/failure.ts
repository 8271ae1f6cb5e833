import { randomUUID } from "node:crypto";
import type { HTTPError } from "h3";
import { isServiceError, ServiceError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { Redactor } from "../base/redactor.ts";
import { jsonResponse } from "./answer.ts";
import type { ErrorForm } from "./error-form.ts";

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

/** An error as an HTTP response, without known secrets: as an ErrorResponse, or in the form of the route. */
export function toErrorAnswer(
  error: ServiceError,
  {
    now,
    redactor,
    form,
  }: { readonly now: Date; readonly redactor: Redactor; readonly form?: ErrorForm | undefined },
): Response {
  const { type, status, headers } = error;
  const detail = error.detail && redactor.text(error.detail);
  const clean = new ServiceError(type, redactor.text(error.message), {
    ...(detail && { detail }),
    status,
    headers,
  });
  if (!form) return jsonResponse(clean.toResponse(now), status, headers);
  return jsonResponse(form.toBody(clean), form.status?.(clean) ?? status, headers);
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

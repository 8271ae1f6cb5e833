import { H3, type HTTPError } from "h3";
import type { Container } from "../container.ts";
import { isServiceError, ServiceError } from "../errors.ts";
import { CLOCK } from "../tokens.ts";

/** The HTTP face of a service. */
export function createApp(scope: Container): H3 {
  const clock = scope.get(CLOCK);
  return new H3({
    silent: true,
    onError: (error) => {
      const known = isServiceError(error.cause) ? error.cause : toServiceError(error);
      return Response.json(known.toResponse(clock()), { status: known.status, headers: known.headers });
    },
  });
}

function toServiceError(error: HTTPError): ServiceError {
  if (error.status === 404) return new ServiceError("not_found", "There is nothing at this path");
  return new ServiceError("internal_error", "Something went wrong here");
}

import { ServiceError } from "../base/errors.ts";

/** A failure of the store: nothing of the write was stored. `detail` says what to do. */
export function storageError(message: string, detail: string, cause?: unknown): ServiceError {
  return new ServiceError("storage_error", message, { detail, cause });
}

/** The store was closed before or during the request. */
export function closedError(): ServiceError {
  return new ServiceError("unavailable", "The store is closed", {
    detail: "The service is stopping; retry after it has restarted.",
  });
}

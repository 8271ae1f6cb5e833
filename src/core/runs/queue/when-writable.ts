import { setTimeout as delay } from "node:timers/promises";
import { delays } from "../../base/backoff.ts";
import { isServiceError, type ServiceError } from "../../base/errors.ts";

const pauseOf = delays({ first: 100, most: 5000 });

/**
 * Runs work that writes or reads, and retries at growing intervals while the store cannot; other failures are
 * thrown. `onFailure` is called before each wait, and throws to give up.
 */
export function whenWritable<T>(
  work: () => Promise<T>,
  onFailure: (error: ServiceError) => void,
  failures = 0,
): Promise<T> {
  let done: Promise<T>;
  try {
    done = work();
  } catch (error) {
    done = Promise.reject(error);
  }
  // Most work succeeds: an async function would have it wait once more.
  return done.catch(async (error: unknown) => {
    if (!isStorageError(error)) throw error;
    onFailure(error);
    await delay(pauseOf(failures), undefined, { ref: false });
    return whenWritable(work, onFailure, failures + 1);
  });
}

export function isStorageError(error: unknown): error is ServiceError {
  return isServiceError(error) && error.type === "storage_error";
}

import { setTimeout as delay } from "node:timers/promises";
import { isServiceError, type ServiceError } from "../base/errors.ts";

/**
 * Does what writes, and while the store cannot write tries again, at growing intervals; other failures are thrown.
 * `onFailure` is told before each wait, and throws to give up.
 */
export async function whenWritable<T>(
  work: () => Promise<T>,
  onFailure: (error: ServiceError) => void,
): Promise<T> {
  for (let pause = 100; ; pause = Math.min(pause * 2, 5000)) {
    try {
      return await work();
    } catch (error) {
      if (!isStorageError(error)) throw error;
      onFailure(error);
      await delay(pause, undefined, { ref: false });
    }
  }
}

export function isStorageError(error: unknown): error is ServiceError {
  return isServiceError(error) && error.type === "storage_error";
}

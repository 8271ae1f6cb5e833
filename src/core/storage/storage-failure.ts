import { ServiceError } from "../base/errors.ts";

/**
 * Why a storage did not do what was asked: it asks for fewer requests (`throttled`), does not respond as it should
 * (`unavailable`), refuses the credentials (`denied`), has no room (`full`), or does not exist (`gone`), the clock of this
 * machine is wrong (`clock`), or what it has is not what was written (`damaged`).
 */
export type StorageFailureReason =
  | "throttled"
  | "unavailable"
  | "denied"
  | "full"
  | "gone"
  | "clock"
  | "damaged";

export interface StorageFailureOptions {
  readonly reason: StorageFailureReason;
  /** What to do next. */
  readonly detail: string;
  readonly cause?: unknown;
}

/** A storage failed, after retries where these help. A write that failed may have been stored, or may still be. */
export class StorageFailure extends ServiceError {
  readonly reason: StorageFailureReason;

  constructor(message: string, { reason, detail, cause }: StorageFailureOptions) {
    super("storage_error", message, {
      ...{ detail, cause },
      ...(isPassing(reason) ? { headers: { "retry-after": "5" } } : {}),
      ...(reason === "full" ? { status: 507 } : {}),
    });
    this.reason = reason;
  }
}

/** Whether the same may succeed later without anybody doing something. */
export function isPassing(reason: StorageFailureReason): boolean {
  return reason === "throttled" || reason === "unavailable";
}

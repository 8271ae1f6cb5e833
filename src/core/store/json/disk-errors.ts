import { isServiceError } from "../../errors.ts";
import { storageError } from "../storage-error.ts";
import { codeOf, isNoRoom } from "./io.ts";

/** There is no room on the disk. */
export function fullError(folder: string, cause?: unknown): Error {
  return storageError(
    "The disk is full: nothing was stored",
    `Free room on the disk that holds ${folder}; the service goes on by itself. Removing jobs works meanwhile.`,
    cause,
  );
}

/** What people are told of a failed system call. */
export function diskError(error: unknown, folder: string): Error {
  if (isServiceError(error)) return error;
  if (isNoRoom(error)) return fullError(folder, error);
  return storageError(
    `The disk did not take a write (${codeOf(error) ?? String(error)}): nothing was stored`,
    `Check the disk that holds ${folder} and the limits of the process; the service tries again by itself.`,
    error,
  );
}

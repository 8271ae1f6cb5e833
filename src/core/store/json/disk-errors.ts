import { isServiceError } from "../../base/errors.ts";
import { codeOf, isNoRoom } from "../../storage/file-io.ts";
import { storageError } from "../storage-error.ts";
import type { Owner } from "./manifest.ts";

/** The disk is full. */
export function fullError(folder: string, cause?: unknown): Error {
  return storageError(
    "The disk is full: nothing was stored",
    `Free space on the disk of ${folder}; the service continues automatically. Meanwhile, jobs can be removed.`,
    cause,
  );
}

/** The folder or one of its files is missing or was replaced; it may come back. */
export function folderGoneError(folder: string, what: string): Error {
  return storageError(
    `The data folder ${folder} is gone or was replaced (${what}): writes are stopped`,
    "Restore the folder and the service continues automatically; or restart the service to use the current content.",
  );
}

/** Somebody else has written to the folder, so the memory no longer matches it. */
export function folderReplacedError(folder: string): Error {
  return storageError(
    `MANIFEST.json in ${folder} was replaced while the service was running: writes are stopped`,
    "Restart the service to use the current content. Stop the service before you restore a backup.",
  );
}

/** Another process has opened the folder. */
export function ownerLostError(folder: string, { pid, host }: Owner): Error {
  return storageError(
    `Process ${pid} on ${host} took over ${folder}: this process has stopped writing`,
    "Stop this process: a data folder is for one instance only. A restart takes the folder back and stops the other process's writes.",
  );
}

/** The error for a failed system call. */
export function diskError(error: unknown, folder: string): Error {
  if (isServiceError(error)) return error;
  if (isNoRoom(error)) return fullError(folder, error);
  return storageError(
    `A write to the disk failed (${codeOf(error) ?? String(error)}): nothing was stored`,
    `Check the disk of ${folder} and the limits of the process; the service retries automatically.`,
    error,
  );
}

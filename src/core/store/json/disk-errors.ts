import { isServiceError } from "../../base/errors.ts";
import { storageError } from "../storage-error.ts";
import { codeOf, isNoRoom } from "./io.ts";
import type { Owner } from "./manifest.ts";

/** There is no room on the disk. */
export function fullError(folder: string, cause?: unknown): Error {
  return storageError(
    "The disk is full: nothing was stored",
    `Free room on the disk that holds ${folder}; the service goes on by itself. Removing jobs works meanwhile.`,
    cause,
  );
}

/** The folder or a file of it is not there, or is another one; it may come back. */
export function folderGoneError(folder: string, what: string): Error {
  return storageError(
    `The data folder ${folder} is gone or was replaced (${what}): nothing is stored any more`,
    "Put the folder back as it was and the service goes on by itself; or restart the service to go on with what is there now.",
  );
}

/** The folder was written to by somebody else, so that what is in memory is no longer what is in it. */
export function folderReplacedError(folder: string): Error {
  return storageError(
    `MANIFEST.json in ${folder} was replaced while the service was running: nothing is stored any more`,
    "Restart the service to go on with what is there now. Stop it before you restore a backup.",
  );
}

/** Another process has opened the folder. */
export function ownerLostError(folder: string, { pid, host }: Owner): Error {
  return storageError(
    `Process ${pid} on ${host} took over ${folder}: this process stores nothing any more`,
    "Stop this process: a data folder is for one instance only. A restart takes the folder back and ends the other one's writes.",
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

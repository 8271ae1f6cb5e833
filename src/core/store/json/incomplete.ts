import { storageError } from "../storage-error.ts";
import type { StoreIo } from "./io.ts";

/** File that is in a folder while a store is copied into it. */
const INCOMPLETE = "INCOMPLETE";

/** Refuses a folder with an incomplete copy of a store. */
export function refuseIncomplete(io: StoreIo, folder: string): void {
  if (!io.list(folder).includes(INCOMPLETE)) return;
  throw storageError(
    `${folder} contains an incomplete store: a backup, restore or import into it was interrupted`,
    "Delete the folder's content and repeat the backup, restore or import.",
  );
}

/**
 * Fills an empty folder. Until everything is on disk, a marker file prevents that the folder is opened.
 */
export async function fillFolder<T>(io: StoreIo, folder: string, fill: () => Promise<T>): Promise<T> {
  io.makeFolder(folder);
  // The root of a file system has this folder from the start.
  const names = io.list(folder).filter((name) => name !== "lost+found");
  if (names.length > 0) {
    throw storageError(`${folder} is not empty`, "Use a folder that is empty or does not exist.");
  }
  const marker = `${folder}/${INCOMPLETE}`;
  io.close(io.open(marker, "create"));
  await io.syncFolder(folder);
  const filled = await fill();
  await io.syncFolder(folder);
  io.remove(marker);
  await io.syncFolder(folder);
  return filled;
}

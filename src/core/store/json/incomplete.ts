import { readFully, type StoreIo, writeFully } from "../../storage/file-io.ts";
import { storageError } from "../storage-error.ts";

/** File that is in a folder while a store is copied into it. Of a move it has the id. */
const INCOMPLETE = "INCOMPLETE";
/** The same while it is written: what does not have its whole id yet would be of no move. */
const DRAFT = "INCOMPLETE.tmp";

/** Folder with the record of how far the store was shipped to a storage. */
export const SHIPPING = "shipping";

/** Removes that record: what a folder has from now on did not become of what was shipped. */
export async function forgetShipping(io: StoreIo, folder: string): Promise<void> {
  if (!io.list(folder).includes(SHIPPING)) return;
  for (const name of io.list(`${folder}/${SHIPPING}`)) io.remove(`${folder}/${SHIPPING}/${name}`);
  await io.syncFolder(`${folder}/${SHIPPING}`);
}

/** Refuses a folder with an incomplete copy of a store. */
export function refuseIncomplete(io: StoreIo, folder: string): void {
  if (!io.list(folder).includes(INCOMPLETE)) return;
  throw storageError(
    `${folder} contains an incomplete store: a backup, restore, import or move into it was interrupted`,
    "Delete the folder's content and repeat the backup, restore or import. To finish `svc store move` or `svc deploy restore`, run the same command again.",
  );
}

/** Id of the move that has left an incomplete copy; empty where it was something else; `undefined` if there is none. */
export function incompleteMove(io: StoreIo, folder: string): string | undefined {
  if (!io.list(folder).includes(INCOMPLETE)) return undefined;
  const file = io.open(`${folder}/${INCOMPLETE}`, "read");
  try {
    const bytes = Buffer.alloc(io.size(file));
    return bytes.toString("utf8", 0, readFully(io, file, bytes, 0));
  } finally {
    io.close(file);
  }
}

/** Whether a file of this name is, or was, part of a store. */
export function isOfStore(name: string): boolean {
  const isNamed = name === INCOMPLETE || name === "damaged" || name === SHIPPING;
  return isNamed || name.startsWith("MANIFEST.") || name.endsWith(".jsonl");
}

/** Removes what a move has left that was interrupted. */
export async function clearIncomplete(io: StoreIo, folder: string, move: string): Promise<void> {
  if (incompleteMove(io, folder) !== move) return;
  for (const name of io.list(folder)) {
    if (isOfStore(name) && name !== INCOMPLETE) io.remove(`${folder}/${name}`);
  }
  await io.syncFolder(folder);
  io.remove(`${folder}/${INCOMPLETE}`);
  await io.syncFolder(folder);
}

/**
 * Fills an empty folder. Until everything is on disk, a marker file prevents that the folder is opened; it has the id
 * of a move.
 */
export async function fillFolder<T>(
  io: StoreIo,
  folder: string,
  fill: () => Promise<T>,
  {
    move = "",
    isAllowed = () => false,
  }: { move?: string; isAllowed?: ((name: string) => boolean) | undefined } = {},
): Promise<T> {
  io.makeFolder(folder);
  // The root of a file system has this folder from the start.
  const names = io.list(folder).filter((name) => name !== "lost+found" && name !== DRAFT && !isAllowed(name));
  if (names.length > 0) {
    throw storageError(`${folder} is not empty`, "Use a folder that is empty or does not exist.");
  }
  const [marker, draft] = [`${folder}/${INCOMPLETE}`, `${folder}/${DRAFT}`];
  if (io.list(folder).includes(DRAFT)) io.remove(draft);
  const file = io.open(draft, "create");
  try {
    writeFully(io, file, Buffer.from(move), 0);
    await io.sync(file);
  } finally {
    io.close(file);
  }
  io.rename(draft, marker);
  await io.syncFolder(folder);
  const filled = await fill();
  await io.syncFolder(folder);
  io.remove(marker);
  await io.syncFolder(folder);
  return filled;
}

import { ClosedStoreError, type Mark } from "../closed.ts";
import { storageError } from "../storage-error.ts";
import { type Objects, seal, unseal } from "./sealed.ts";

/** The key of the object that closes the store: nobody may write to it. */
const CLOSED = "closed";

/** Why the store is closed; its move is empty while it is filled by something else than a move. */
export async function readMark(objects: Objects): Promise<Mark | undefined> {
  const bytes = await objects.get(CLOSED);
  if (bytes === undefined) return undefined;
  const found = unseal<{ mark: Mark }>(bytes)?.head.mark;
  if (found !== undefined) return found;
  throw storageError(
    "The mark that closes the store in the storage is damaged: whether it may be used is unknown",
    `If no move of this store was interrupted, remove the object that ends with "${CLOSED}" from the storage.`,
  );
}

export async function writeMark(objects: Objects, mark: Mark | undefined): Promise<void> {
  if (mark === undefined) await objects.remove(CLOSED);
  else await objects.put(CLOSED, seal({ mark }));
}

/** Refuses a store that is closed. */
export async function refuseClosed(objects: Objects): Promise<void> {
  const mark = await readMark(objects);
  if (mark === undefined) return;
  if (mark.move !== "") throw new ClosedStoreError(mark);
  throw storageError(
    "The storage contains an incomplete store: a restore or import into it was interrupted",
    "Repeat the restore or import.",
  );
}

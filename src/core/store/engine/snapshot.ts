import type { UnstorageStorage } from "../../storage/open-storage.ts";
import { toBytes } from "../../storage/storage-driver.ts";
import { FILES_ROOT } from "../files/file-chunks.ts";
import { storageError } from "../storage-error.ts";

/** A consistent state of a store, to be copied while it is written to. */
export interface StoreSnapshot {
  /** Its files, in the order in which `read` yields their bytes. Of the last one the size may be missing. */
  readonly files: readonly { readonly name: string; readonly size?: number }[];
  /** Yields the bytes of all files, one after another, and releases the files at the end. */
  read(): AsyncGenerator<Uint8Array, void>;
  /** Releases the files without reading them. */
  release(): void;
}

/** Sends a backup; of chunks of contents that its receiver has, only the keys. */
export type SendBackup = (has?: (key: string) => Promise<boolean>) => AsyncIterable<Uint8Array>;

/**
 * What a backup sends: the files on a line of JSON, then their bytes. A file whose size is missing ends with an empty
 * line, which is not part of it. Where there are contents of files, each of their chunks comes before that, with its key
 * and size on a line of its own; the last such line is empty of both. They are listed after the snapshot was taken: what
 * it names is kept for longer than a backup takes. Of chunks that the receiver `has`, their lines say so, and no bytes follow.
 */
export async function* sendSnapshot(
  snapshot: StoreSnapshot,
  contents?: UnstorageStorage,
  has?: (key: string) => Promise<boolean>,
): AsyncGenerator<Uint8Array, void> {
  try {
    const keys = (await contents?.getKeys(FILES_ROOT)) ?? [];
    const head = { files: snapshot.files, ...(keys.length > 0 && { contents: true }) };
    yield Buffer.from(`${JSON.stringify(head)}\n`);
    for (const key of keys) {
      if (await has?.(key)) {
        yield Buffer.from(`${JSON.stringify({ key, isKnown: true })}\n`);
        continue;
      }
      const bytes = toBytes(await contents!.getItemRaw(key));
      if (bytes === undefined) continue;
      yield Buffer.from(`${JSON.stringify({ key, size: bytes.length })}\n`);
      yield bytes;
    }
    if (keys.length > 0) yield Buffer.from("{}\n");
    yield* snapshot.read();
    if (snapshot.files.at(-1)?.size === undefined && snapshot.files.length > 0) yield Buffer.from("\n");
  } finally {
    snapshot.release();
  }
}

/** A snapshot as a stream, which releases the files even if nobody reads it. */
export function streamSnapshot(
  snapshot: StoreSnapshot,
  contents?: UnstorageStorage,
): ReadableStream<Uint8Array> {
  const sent = sendSnapshot(snapshot, contents);
  return new ReadableStream(
    {
      async pull(controller) {
        const { value, done } = await sent.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await sent.return();
        snapshot.release();
      },
    },
    { highWaterMark: 1 },
  );
}

/** The error for what is not sent by a backup. */
export function notBackup(): Error {
  return storageError("The response is not a store backup", "Check the URL and the version of the service.");
}

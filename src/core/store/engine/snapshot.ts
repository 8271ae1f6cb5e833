/** A consistent state of a store, to be copied while it is written to. */
export interface StoreSnapshot {
  /** Its files, in the order in which `read` yields their bytes. Of the last one the size may be missing. */
  readonly files: readonly { readonly name: string; readonly size?: number }[];
  /** Yields the bytes of all files, one after another, and releases the files at the end. */
  read(): AsyncGenerator<Uint8Array, void>;
  /** Releases the files without reading them. */
  release(): void;
}

/**
 * What a backup sends: the files on a line of JSON, then their bytes. A file whose size is missing ends with an empty
 * line, which is not part of it.
 */
export async function* sendSnapshot(snapshot: StoreSnapshot): AsyncGenerator<Uint8Array, void> {
  try {
    yield Buffer.from(`${JSON.stringify({ files: snapshot.files })}\n`);
    yield* snapshot.read();
    if (snapshot.files.at(-1)?.size === undefined && snapshot.files.length > 0) yield Buffer.from("\n");
  } finally {
    snapshot.release();
  }
}

/** A snapshot as a stream, which releases the files even if nobody reads it. */
export function streamSnapshot(snapshot: StoreSnapshot): ReadableStream<Uint8Array> {
  const sent = sendSnapshot(snapshot);
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

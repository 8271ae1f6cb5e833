import type { FileContent, FileValue } from "../models/file.ts";
import type { RunEntry } from "../models/run-entry.ts";
import type { FileChunks } from "../store/files/file-chunks.ts";
import type { Store } from "../store/store.ts";

/** The content of a recorded result is missing or damaged: a repetition does not help. */
export class UnreadableResultError extends Error {
  override readonly name = "UnreadableResultError";
}

/** Reads a result that is stored apart from its record; rejects with `UnreadableResultError` where it is lost. */
export type ReadResult = (file: FileValue) => Promise<unknown>;

export async function readResultOf(
  { store, chunks }: { readonly store: Store; readonly chunks: FileChunks },
  { sha256 }: FileValue,
): Promise<unknown> {
  const content = await store.table("FileContent").get(sha256);
  const bytes = content && (await wholeOf(chunks, content));
  if (bytes) return JSON.parse(bytes.toString("utf8"));
  throw new UnreadableResultError(
    `The stored result with the SHA-256 ${sha256} is missing or damaged: restore it from a backup; svc store verify names what is broken`,
  );
}

/** The entry with its result, also where that is stored apart. */
export async function withResult(entry: RunEntry, read: ReadResult): Promise<RunEntry> {
  if (entry.type !== "call" || !entry.by_reference) return entry;
  const { by_reference: _by, ...known } = entry;
  return { ...known, result: await read(entry.result as FileValue) };
}

/** All bytes of a content; `undefined` where one of its chunks is not as it was written. */
async function wholeOf(
  chunks: FileChunks,
  { place, chunks: parts }: FileContent,
): Promise<Buffer | undefined> {
  const found: Buffer[] = [];
  for (const part of parts) {
    const bytes = await chunks.findIntact(place, part);
    if (bytes === undefined) return undefined;
    found.push(bytes);
  }
  return Buffer.concat(found);
}

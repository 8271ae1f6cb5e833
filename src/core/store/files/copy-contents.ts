import { createHash } from "node:crypto";
import type { FileContent } from "../../models/file.ts";
import type { UnstorageStorage } from "../../storage/open-storage.ts";
import { toBytes } from "../../storage/storage-driver.ts";
import type { Content } from "../content.ts";
import { storageError } from "../storage-error.ts";
import { chunkKey, FILES_ROOT, FileChunks } from "./file-chunks.ts";

/** Copies the chunks of all contents that are not there yet: a chunk never changes. Resolves with their number. */
export async function copyContents(from: UnstorageStorage, to: UnstorageStorage): Promise<number> {
  const known = new Set(await to.getKeys(FILES_ROOT));
  let count = 0;
  for (const key of await from.getKeys(FILES_ROOT)) {
    if (known.has(key)) continue;
    const bytes = toBytes(await from.getItemRaw(key));
    // It was removed since the keys were listed: nothing names it any longer.
    if (bytes === undefined) continue;
    await to.setItemRaw(key, bytes);
    count++;
  }
  return count;
}

/** A content of which something is missing or damaged. */
export interface BrokenContent {
  readonly sha256: string;
  readonly place: string;
  readonly what: string;
}

/** Reads all contents that the rows of a store name, and lists those that are not as they were written. */
export async function verifyContents(content: Content, storage: UnstorageStorage): Promise<BrokenContent[]> {
  const broken: BrokenContent[] = [];
  const chunks = new FileChunks(storage);
  for await (const row of contentsIn(content)) {
    const what = await problemOf(chunks, row);
    if (what !== undefined) broken.push({ sha256: row.id, place: row.place, what });
  }
  return broken;
}

/** Rejects if a content that the rows of a store name is not as it was written. */
export async function assertContents(
  content: Content,
  storage: UnstorageStorage,
  name: string,
): Promise<void> {
  const [first] = await verifyContents(content, storage);
  if (first === undefined) return;
  throw storageError(
    `The copy in ${name} lacks the file with the SHA-256 ${first.sha256} (${first.what})`,
    "Check the source with svc store verify, and repeat the command.",
  );
}

/** The contents that the rows of a store name. */
export async function* contentsIn({ parts }: Content): AsyncGenerator<FileContent, void> {
  const part = parts.find(({ name, isLog }) => name === "FileContent" && !isLog);
  if (!part) return;
  for await (const rows of part.rows()) for (const { body } of rows) yield JSON.parse(body) as FileContent;
}

/** The bytes of a content. Rejects where a part of it is missing. */
export async function* bytesOf(
  storage: UnstorageStorage,
  { id, place, chunks: parts }: FileContent,
): AsyncGenerator<Buffer, void> {
  const chunks = new FileChunks(storage);
  for (const chunk of parts) {
    const bytes = await chunks.find(place, chunk);
    if (bytes === undefined)
      throw storageError(`A part of the file with the SHA-256 ${id} is missing`, "Restore it from a backup.");
    yield bytes;
  }
}

/** Writes the bytes of a content as the chunks that its row names. */
export async function writeContentBytes(
  storage: UnstorageStorage,
  { id, place, chunks, size }: FileContent,
  bytes: Buffer,
): Promise<void> {
  if (bytes.length !== size || createHash("sha256").update(bytes).digest("hex") !== id) {
    throw storageError(
      `The file with the SHA-256 ${id} is not the one that was exported`,
      "Use the folder as svc store export wrote it.",
    );
  }
  let at = 0;
  for (const [chunk, length] of chunks) {
    await storage.setItemRaw(chunkKey(place, chunk), bytes.subarray(at, at + length));
    at += length;
  }
}

async function problemOf(chunks: FileChunks, { id, place, chunks: parts }: FileContent) {
  const hash = createHash("sha256");
  try {
    for (const chunk of parts) {
      const bytes = await chunks.find(place, chunk);
      if (bytes === undefined) return `part ${chunk[0]} is missing`;
      hash.update(bytes);
    }
  } catch (error) {
    return (error as Error).message;
  }
  return hash.digest("hex") === id ? undefined : "it has other bytes";
}

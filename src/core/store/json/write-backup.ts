import { parseJson } from "../../base/parse-json.ts";
import { fileDriver } from "../../storage/file.ts";
import { type StoreIo, writeFully } from "../../storage/file-io.ts";
import { openStorage } from "../../storage/open-storage.ts";
import type { Keyring } from "../encryption/keyring.ts";
import { countSealedFiles, openedContent } from "../encryption/sealed-content.ts";
import { sealedContents } from "../encryption/sealed-place.ts";
import { ByteReader } from "../engine/byte-reader.ts";
import { notBackup } from "../engine/snapshot.ts";
import { assertContents } from "../files/copy-contents.ts";
import { isChunk } from "../files/file-chunks.ts";
import { storageError } from "../storage-error.ts";
import { readFiles as readStored } from "./folder-content.ts";
import { fillFolder } from "./incomplete.ts";
import { MANIFEST, manifestText } from "./manifest.ts";
import { verifyFiles } from "./verify.ts";

/** Valid file names of a store; never a path, whatever the sender. */
const NAME = /^[A-Za-z][A-Za-z0-9_-]*\.\d+\.jsonl$/;

type SentFiles = readonly { readonly name: string; readonly size?: number }[];

/**
 * Writes what `sendSnapshot` yields into an empty folder, and checks it there. Until that is done, the folder
 * is marked as incomplete and cannot be opened.
 */
export async function writeBackup(
  io: StoreIo,
  folder: string,
  sent: AsyncIterable<Uint8Array>,
  keys: Keyring,
): Promise<{ files: number; bytes: number; lines: number; unchecked: number }> {
  const chunks = sent[Symbol.asyncIterator]();
  try {
    const reader = new ByteReader(chunks);
    // Before the folder is changed: the sender may refuse.
    const { files, hasContents } = await readFiles(reader);
    return await fillFolder(io, folder, async () => {
      if (hasContents) await copyContents(folder, reader);
      const copied = await copyFiles(io, folder, { files, reader });
      const contents = sealedContents(openStorage(fileDriver({ folder })), keys);
      return await readStored(io, folder, async (content) => {
        const unchecked = keys.isEmpty ? await countSealedFiles(content) : 0;
        if (unchecked === 0) await assertContents(openedContent(content, keys), contents, folder);
        return { ...copied, unchecked };
      });
    });
  } finally {
    await chunks.return?.();
  }
}

/** Writes the chunks of contents, whose keys are never a path, whatever the sender. */
async function copyContents(folder: string, reader: ByteReader): Promise<void> {
  const contents = openStorage(fileDriver({ folder }));
  for (;;) {
    const { key, size } = parseJson(await reader.line()) as { key?: string; size?: number };
    if (key === undefined) return;
    if (!isChunk(key, size)) throw notBackup();
    await contents.setItemRaw(key, await reader.bytes(size!));
  }
}

async function copyFiles(
  io: StoreIo,
  folder: string,
  { files, reader }: { files: SentFiles; reader: ByteReader },
): Promise<{ files: number; bytes: number; lines: number }> {
  let bytes = 0;
  const written: { name: string; size: number }[] = [];
  for (const { name, size } of files) {
    const parts = size === undefined ? reader.untilEmptyLine() : reader.take(size);
    written.push({ name, size: await writeFile(io, `${folder}/${name}`, parts) });
    bytes += written.at(-1)!.size;
  }
  await writeFile(io, `${folder}/${MANIFEST}`, one(Buffer.from(manifestText({ format: 1, files: written }))));
  const { lines, problems } = await verifyFiles(io, folder);
  const [first] = problems;
  if (first !== undefined) {
    const place = `${first.file}, byte ${first.byte}: ${first.what}`;
    throw storageError(`The copy in ${folder} is damaged (${place})`, "Delete it and create another one.");
  }
  return { files: files.length, bytes, lines };
}

async function readFiles(reader: ByteReader): Promise<{ files: SentFiles; hasContents: boolean }> {
  const text = await reader.line();
  try {
    const { files, contents = false } = JSON.parse(text) as { files: SentFiles; contents?: boolean };
    const isSize = (size: number | undefined, at: number) =>
      size === undefined ? at === files.length - 1 : Number.isSafeInteger(size) && size >= 0;
    const ok = files.every(({ name, size }, at) => NAME.test(name) && isSize(size, at));
    if (ok && new Set(files.map(({ name }) => name)).size === files.length)
      return {
        files: files.map(({ name, size }) => (size === undefined ? { name } : { name, size })),
        hasContents: contents,
      };
  } catch {
    // Reported below.
  }
  throw notBackup();
}

/** Resolves with the size of the file. */
async function writeFile(io: StoreIo, path: string, parts: AsyncIterable<Uint8Array>): Promise<number> {
  const file = io.open(path, "create");
  try {
    let at = 0;
    for await (const part of parts) {
      writeFully(io, file, part, at);
      at += part.length;
    }
    await io.sync(file);
    return at;
  } finally {
    io.close(file);
  }
}

async function* one(bytes: Uint8Array): AsyncGenerator<Uint8Array, void> {
  yield bytes;
}

import { parseJson } from "../../base/parse-json.ts";
import { fileDriver } from "../../storage/file.ts";
import { type StoreIo, writeFully } from "../../storage/file-io.ts";
import { openStorage } from "../../storage/open-storage.ts";
import { assertContents } from "../files/copy-contents.ts";
import { storageError } from "../storage-error.ts";
import { readFiles as readStored } from "./folder-content.ts";
import { fillFolder } from "./incomplete.ts";
import { MANIFEST, manifestText } from "./manifest.ts";
import { verifyFiles } from "./verify.ts";

/** Valid file names of a store; never a path, whatever the sender. */
const NAME = /^[A-Za-z][A-Za-z0-9_-]*\.\d+\.jsonl$/;
/** Keys of chunks, and the most bytes that one has. */
const CHUNK = /^svc-files:[0-9a-f]{32}:[0-9a-f]{16}$/;
const LARGEST = 64 * 1024 * 1024;
const NEWLINE = 10;

type SentFiles = readonly { readonly name: string; readonly size?: number }[];

/**
 * Writes what `sendSnapshot` yields into an empty folder, and checks it there. Until that is done, the folder
 * is marked as incomplete and cannot be opened.
 */
export async function writeBackup(
  io: StoreIo,
  folder: string,
  sent: AsyncIterable<Uint8Array>,
): Promise<{ files: number; bytes: number; lines: number }> {
  const chunks = sent[Symbol.asyncIterator]();
  try {
    const reader = new Reader(chunks);
    // Before the folder is changed: the sender may refuse.
    const { files, hasContents } = await readFiles(reader);
    return await fillFolder(io, folder, async () => {
      if (hasContents) await copyContents(folder, reader);
      const copied = await copyFiles(io, folder, { files, reader });
      const contents = openStorage(fileDriver({ folder }));
      await readStored(io, folder, (content) => assertContents(content, contents, folder));
      return copied;
    });
  } finally {
    await chunks.return?.();
  }
}

/** Writes the chunks of contents, whose keys are never a path, whatever the sender. */
async function copyContents(folder: string, reader: Reader): Promise<void> {
  const contents = openStorage(fileDriver({ folder }));
  for (;;) {
    const { key, size = 0 } = parseJson(await reader.line()) as { key?: string; size?: number };
    if (key === undefined) return;
    if (!CHUNK.test(key) || !Number.isSafeInteger(size) || size < 0 || size > LARGEST) throw notBackup();
    const parts: Uint8Array[] = [];
    for await (const part of reader.take(size)) parts.push(Buffer.from(part));
    await contents.setItemRaw(key, Buffer.concat(parts));
  }
}

async function copyFiles(
  io: StoreIo,
  folder: string,
  { files, reader }: { files: SentFiles; reader: Reader },
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

async function readFiles(reader: Reader): Promise<{ files: SentFiles; hasContents: boolean }> {
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

function notBackup(): Error {
  return storageError("The response is not a store backup", "Check the URL and the version of the service.");
}

/** Reads lines and counted bytes from chunks of any size. */
class Reader {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(chunks: AsyncIterator<Uint8Array>) {
    this.#chunks = chunks;
  }

  async line(): Promise<string> {
    let line = Buffer.alloc(0);
    for (;;) {
      const end = this.#rest.indexOf(NEWLINE);
      if (end >= 0) {
        line = Buffer.concat([line, this.#rest.subarray(0, end)]);
        this.#rest = this.#rest.subarray(end + 1);
        return line.toString();
      }
      line = Buffer.concat([line, this.#rest]);
      if (line.length > 16 * 1024 * 1024) return "";
      await this.#next();
    }
  }

  async *take(size: number): AsyncGenerator<Uint8Array, void> {
    for (let left = size; left > 0; ) {
      if (this.#rest.length === 0) await this.#next();
      const part = this.#rest.subarray(0, left);
      this.#rest = this.#rest.subarray(part.length);
      left -= part.length;
      yield part;
    }
  }

  /** All that is left, without the empty line that it must end with. */
  async *untilEmptyLine(): AsyncGenerator<Uint8Array, void> {
    // The last two bytes are held back.
    for (let held = this.#rest; ; ) {
      const { value, done } = await this.#chunks.next();
      if (done) {
        if (held.length < 2 || held.at(-1) !== NEWLINE || held.at(-2) !== NEWLINE) throw interrupted();
        yield held.subarray(0, -1);
        return;
      }
      const all = Buffer.concat([held, value]);
      yield all.subarray(0, -2);
      held = Buffer.from(all.subarray(-2));
    }
  }

  async #next(): Promise<void> {
    const { value, done } = await this.#chunks.next();
    if (done) throw interrupted();
    this.#rest = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  }
}

function interrupted(): Error {
  return storageError("The backup was interrupted", "Delete the incomplete copy and repeat the backup.");
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

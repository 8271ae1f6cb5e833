import { randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";
import type { FileChunk } from "../../models/file.ts";
import type { UnstorageStorage } from "../../storage/open-storage.ts";
import { toBytes } from "../../storage/storage-driver.ts";
import { type Keyring, NO_KEYS } from "../encryption/keyring.ts";
import { openChunk, sealChunk } from "../encryption/sealed-chunk.ts";
import { storageError } from "../storage-error.ts";

/** All keys of contents begin with it: what is beside them in a bucket or folder is not touched. */
export const FILES_ROOT = "svc-files";
/** Bytes of a chunk, except for the last. */
const CHUNK = 4 * 1024 * 1024;

/** The form of a key of a chunk, and the most bytes that one has. */
const KEY = /^svc-files:[0-9a-f]{32}:[0-9a-f]{16}$/;
const LARGEST = 64 * 1024 * 1024;

/** Whether a backup may send such a chunk: its key is never a path, whatever the sender. */
export function isChunk(key: string, size: number | undefined): boolean {
  return KEY.test(key) && Number.isSafeInteger(size) && size! >= 0 && size! <= LARGEST;
}

/** A name for the place of one content, which is never used for another one. It begins with its time, milliseconds. */
export function newPlace(now: number): string {
  return now.toString(16).padStart(12, "0") + randomBytes(10).toString("hex");
}

/** Milliseconds since a place was named; of the places of earlier versions, which do not have their time, any number. */
export function ageOf(place: string, now: number): number {
  return now - Number.parseInt(place.slice(0, 12), 16);
}

/** The parts of contents in a storage: each is written once, under a name of its own, and never changes. */
export class FileChunks {
  readonly #storage: UnstorageStorage;
  readonly #keys: Keyring;

  /** `keys` are what parts are encrypted with. */
  constructor(storage: UnstorageStorage, keys: Keyring = NO_KEYS) {
    this.#storage = storage;
    this.#keys = keys;
  }

  /** Writes bytes, of which no others have the name. They last when it resolves. */
  async put(place: string, bytes: Uint8Array): Promise<FileChunk> {
    const id = randomBytes(8).toString("hex");
    const key = chunkKey(place, id);
    await this.#storage.setItemRaw(key, sealChunk(this.#keys, key, bytes));
    return [id, bytes.length, crc32(bytes)];
  }

  /** The bytes of a chunk; `undefined` if it is missing. Rejects if they are not those that were written. */
  async find(place: string, chunk: FileChunk): Promise<Buffer | undefined> {
    const bytes = await this.#read(place, chunk);
    if (bytes === undefined || isIntact(bytes, chunk)) return bytes;
    throw storageError(
      "The content of a file is damaged: it is not what was written",
      "Restore it from a backup; svc store verify names the files.",
    );
  }

  /** The same, with `undefined` also if they are not those that were written. */
  async findIntact(place: string, chunk: FileChunk): Promise<Buffer | undefined> {
    const bytes = await this.#read(place, chunk);
    return bytes && isIntact(bytes, chunk) ? bytes : undefined;
  }

  async #read(place: string, [id, size]: FileChunk): Promise<Buffer | undefined> {
    const key = chunkKey(place, id);
    const stored = toBytes(await this.#storage.getItemRaw(key));
    return stored && openChunk(this.#keys, key, stored, size);
  }

  /** The ids of all chunks, by place. */
  async list(): Promise<Map<string, string[]>> {
    const found = new Map<string, string[]>();
    for (const key of await this.#storage.getKeys(FILES_ROOT)) {
      const [root, place, id, ...rest] = key.split(":");
      if (root !== FILES_ROOT || place === undefined || id === undefined || rest.length > 0) continue;
      const ids = found.get(place);
      if (ids === undefined) found.set(place, [id]);
      else ids.push(id);
    }
    return found;
  }

  /** Removes chunks, or all of a place. */
  async remove(place: string, ids?: readonly string[]): Promise<void> {
    const keys =
      ids?.map((id) => chunkKey(place, id)) ?? (await this.#storage.getKeys(`${FILES_ROOT}:${place}`));
    for (const key of keys) await this.#storage.removeItem(key);
  }
}

function isIntact(bytes: Buffer, [, size, crc]: FileChunk): boolean {
  return bytes.length === size && crc32(bytes) === crc;
}

/** The key of a chunk. */
export function chunkKey(place: string, id: string): string {
  return `${FILES_ROOT}:${place}:${id}`;
}

/** The bytes of a source in chunks of one size; the last may be smaller. What a source has given before it failed counts. */
export async function* inChunks(
  source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  size = CHUNK,
): AsyncGenerator<Buffer, void> {
  let held: Uint8Array[] = [];
  let bytes = 0;
  let failure: { readonly error: unknown } | undefined;
  try {
    for await (const part of source) {
      for (let from = 0; from < part.length; ) {
        const taken = part.subarray(from, from + size - bytes);
        held.push(taken);
        bytes += taken.length;
        from += taken.length;
        if (bytes < size) continue;
        yield Buffer.concat(held);
        held = [];
        bytes = 0;
      }
    }
  } catch (error) {
    failure = { error };
  }
  if (bytes > 0) yield Buffer.concat(held);
  if (failure) throw failure.error;
}

import { crc32 } from "node:zlib";
import { parseJson } from "../../base/parse-json.ts";

/** Where a journal is kept: immutable objects by key, except for marks. All calls reject if the storage fails. */
export interface Objects {
  /** `undefined` if there is none. */
  get(key: string): Promise<Buffer | undefined>;
  put(key: string, bytes: Uint8Array): Promise<void>;
  /** Stores it only if there is none; resolves with whether it is now this one. Absent where drivers cannot do that. */
  readonly create?: ((key: string, bytes: Uint8Array) => Promise<boolean>) | undefined;
  /** All keys of the store, or those that begin with a word and a colon. */
  list(word?: string): Promise<string[]>;
  remove(key: string): Promise<void>;
}

/**
 * The keys of the object that names the owner, of that with which it releases the store, of that with which others ask for a
 * sign of life, and of that sign.
 */
export const OWNER = "owner";
export const RELEASED = "released";
export const WAITING = "waiting";
export const ALIVE = "alive";

/** An object: what it is, and its content. */
export interface Sealed<H> {
  readonly head: H;
  readonly content: Buffer;
}

/** Bytes of an object with a head in its first line, its size and a checksum, so that a part of it is not taken for it. */
export function seal(head: object, content: Uint8Array = Buffer.alloc(0)): Buffer {
  const text = JSON.stringify({ format: 1, ...head, size: content.length, crc: crc32(content) });
  const line = Buffer.from(`${text.slice(0, -1)},"head":${crc32(text)}}\n`);
  return Buffer.concat([line, content]);
}

/** Throws if the format is not supported. `undefined` if the object is damaged, or was not written whole. */
export function unseal<H>(bytes: Buffer | undefined): Sealed<H> | undefined {
  const end = bytes?.indexOf(10) ?? -1;
  if (bytes === undefined || end < 0) return undefined;
  type Head = H & { format: number; size: number; crc: number; head: number };
  const head = parseJson(bytes.toString("utf8", 0, end)) as Head | undefined;
  if (!head) return undefined;
  const content = bytes.subarray(end + 1);
  const { head: sum, ...rest } = head;
  if (sum !== crc32(JSON.stringify(rest))) return undefined;
  if (head.format !== 1)
    throw new TypeError(
      `The bucket has format ${head.format}; this version supports format 1: use a newer one`,
    );
  return head.size === content.length && head.crc === crc32(content) ? { head, content } : undefined;
}

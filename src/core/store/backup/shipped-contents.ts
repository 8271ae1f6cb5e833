import { hash } from "node:crypto";
import { promisify } from "node:util";
import { gunzip, gzip } from "node:zlib";
import * as v from "valibot";
import { parseJson } from "../../base/parse-json.ts";
import type { UnstorageStorage } from "../../storage/open-storage.ts";
import { toBytes } from "../../storage/storage-driver.ts";
import { firstLine } from "../engine/byte-reader.ts";
import { notBackup } from "../engine/snapshot.ts";
import { FILES_ROOT, isChunk } from "../files/file-chunks.ts";

/** Chunks of contents are below this key, and the id of the backup that has shipped them: those after it name them, too. */
export const CONTENTS_ROOT = "svc-backup-files";

/** A chunk: its key in the store, its key here, its size, and its SHA-256. */
const ChunkSchema = v.tuple([v.string(), v.string(), v.number(), v.string()]);
type ShippedChunk = v.InferOutput<typeof ChunkSchema>;

/** The chunks that a backup names, by their keys in the store. */
export type ShippedChunks = ReadonlyMap<string, ShippedChunk>;

/**
 * Ships the chunks of contents of one backup, each unless an earlier one has: a chunk never changes, and its name is never
 * used again.
 */
export class ContentsShipment {
  readonly #storage: UnstorageStorage;
  readonly #id: string;
  readonly #find: () => Promise<ShippedChunks>;
  readonly #chunks: ShippedChunk[] = [];
  #known: Promise<ShippedChunks> | undefined;
  /** Bytes that it has shipped itself. */
  added = 0;

  /** `find` gives the chunks of a complete backup that are still there; a store without files does not ask. */
  constructor(storage: UnstorageStorage, id: string, find: () => Promise<ShippedChunks>) {
    this.#storage = storage;
    this.#id = id;
    this.#find = find;
  }

  get count(): number {
    return this.#chunks.length;
  }

  /** Bytes of all chunks that the backup names. */
  get size(): number {
    return this.#chunks.reduce((sum, [, , size]) => sum + size, 0);
  }

  has = async (key: string): Promise<boolean> => (await this.#before()).has(key);

  /** What was sent without its contents, which it ships on the way. */
  async *take(sent: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
    const chunks = sent[Symbol.asyncIterator]();
    try {
      const { line, reader } = await firstLine(chunks);
      const head =
        line === undefined ? undefined : (parseJson(line) as { files?: unknown; contents?: unknown });
      if (head?.contents === true) {
        yield Buffer.from(`${JSON.stringify({ files: head.files })}\n`);
        for (;;) {
          const { key, size, isKnown } = parseJson(await reader.line()) as SentChunk;
          if (key === undefined) break;
          if (isKnown) await this.#name(key);
          else if (isChunk(key, size)) await this.#ship(key, await reader.bytes(size!));
          else throw notBackup();
        }
      } else if (line !== undefined) yield Buffer.from(`${line}\n`);
      yield* reader.all();
    } finally {
      await chunks.return?.();
    }
  }

  /** The list of the chunks, compressed. */
  list(): Promise<Buffer> {
    return promisify(gzip)(this.#chunks.map((chunk) => `${JSON.stringify(chunk)}\n`).join(""));
  }

  /** Rejects unless everything that it has shipped is there. */
  async assertShipped(missing: () => Error): Promise<void> {
    if (this.added === 0) return;
    const keys = new Set(await this.#storage.getKeys(`${CONTENTS_ROOT}:${this.#id}`));
    const known = await this.#before();
    const own = this.#chunks.filter(([key]) => !known.has(key));
    if (own.some(([, at]) => !keys.has(at))) throw missing();
  }

  #before(): Promise<ShippedChunks> {
    this.#known ??= this.#find();
    return this.#known;
  }

  async #name(key: string): Promise<void> {
    const known = (await this.#before()).get(key);
    if (known === undefined) throw notBackup();
    this.#chunks.push(known);
  }

  async #ship(key: string, bytes: Buffer): Promise<void> {
    // Who sends it may not know what is here.
    if (await this.has(key)) return this.#name(key);
    const at = `${CONTENTS_ROOT}:${this.#id}:${key.slice(FILES_ROOT.length + 1)}`;
    await this.#storage.setItemRaw(at, bytes);
    this.#chunks.push([key, at, bytes.length, hash("sha256", bytes)]);
    this.added += bytes.length;
  }
}

interface SentChunk {
  readonly key?: string;
  readonly size?: number;
  readonly isKnown?: boolean;
}

/** The chunks that a list names. */
export async function readList(list: Buffer): Promise<ShippedChunks> {
  const text = (await promisify(gunzip)(list)).toString();
  const lines = text.split("\n").filter((line) => line !== "");
  return new Map(
    lines.map((line) => v.parse(ChunkSchema, parseJson(line))).map((chunk) => [chunk[0], chunk]),
  );
}

/** What was sent, with its contents in their place again; `damaged` makes the error where one is not as it was shipped. */
export async function* withContents(
  storage: UnstorageStorage,
  sent: AsyncIterable<Uint8Array>,
  { chunks, damaged }: { readonly chunks: ShippedChunks; readonly damaged: (what: string) => Error },
): AsyncGenerator<Uint8Array, void> {
  const { line, reader } = await firstLine(sent[Symbol.asyncIterator]());
  const head = parseJson(line ?? "") as object | undefined;
  yield Buffer.from(`${JSON.stringify({ ...head, contents: true })}\n`);
  for (const [key, at, size, sha256] of chunks.values()) {
    const bytes = toBytes(await storage.getItemRaw(at));
    if (bytes === undefined) throw damaged(`the part ${at} of a file is missing`);
    if (hash("sha256", bytes) !== sha256)
      throw damaged(`the checksum of the part ${at} of a file does not match`);
    yield Buffer.from(`${JSON.stringify({ key, size })}\n`);
    yield bytes;
  }
  yield Buffer.from("{}\n");
  yield* reader.all();
}

import { createHash, randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { constants, createGunzip, createGzip } from "node:zlib";
import * as v from "valibot";
import { parseJson } from "../../base/parse-json.ts";
import type { UnstorageStorage } from "../../storage/open-storage.ts";
import { toBytes } from "../../storage/storage-driver.ts";
import type { SendBackup } from "../engine/snapshot.ts";
import { storageError } from "../storage-error.ts";
import {
  CONTENTS_ROOT,
  ContentsShipment,
  readList,
  type ShippedChunks,
  withContents,
} from "./shipped-contents.ts";

/** Backups are below this key. */
export const ROOT = "svc-backup";
const MANIFEST = "manifest.json";
const CONTENTS = "contents";
/** Bytes of a part, compressed. */
const PART = 8 * 1024 * 1024;

const GenerationSchema = v.object({
  /** 2 where contents of files are beside it: a version that does not know them must not restore it. */
  format: v.picklist([1, 2]),
  /** Its place below `svc-backup`: when it was started, and some random digits. */
  id: v.string(),
  /** What is in it is of this moment, ISO 8601. */
  made_at: v.string(),
  /** Version of this package that wrote it. */
  version: v.string(),
  /** Size and SHA-256 of what `svc store backup` receives, before compression; without contents of files in format 2. */
  bytes: v.number(),
  sha256: v.string(),
  /** Versions of entities and entries of logs, with a line each. */
  lines: v.number(),
  parts: v.array(v.object({ bytes: v.number(), sha256: v.string() })),
  /** The list of the chunks of contents, their number and bytes, and the bytes that no earlier backup has shipped. */
  contents: v.optional(
    v.object({
      list: v.object({ bytes: v.number(), sha256: v.string() }),
      ...{ chunks: v.number(), bytes: v.number(), added: v.number() },
    }),
  ),
});

/** A backup of a store in a storage, complete: its manifest is written last. */
export type Generation = v.InferOutput<typeof GenerationSchema>;

export interface WriteOptions {
  readonly now: Date;
  readonly version: string;
  /** Bytes of a part; smaller in tests. @default 8 MiB */
  readonly partBytes?: number;
}

/**
 * Ships what is sent, compressed and in parts, and each chunk of contents unless an earlier backup has shipped it. An
 * interrupted backup has no manifest, and is not one.
 */
export async function writeGeneration(
  storage: UnstorageStorage,
  send: SendBackup,
  { now, version, partBytes = PART }: WriteOptions,
): Promise<Generation> {
  const id = `${now.toISOString().replace(/[-:.]/g, "")}-${randomBytes(4).toString("hex")}`;
  const total = new Measure();
  const contents = new ContentsShipment(storage, id, () => shippedBefore(storage));
  const sent = contents.take(send(contents.has));
  const parts: { bytes: number; sha256: string }[] = [];
  let refused: { readonly error: unknown } | undefined;
  await pipeline(
    Readable.from(total.of(sent), { objectMode: false }),
    createGzip({ level: constants.Z_BEST_SPEED }),
    async (compressed: AsyncIterable<Buffer>) => {
      for await (const part of joined(compressed, partBytes)) {
        await storage.setItemRaw(keyOf(id, parts.length), part).catch((error: unknown) => {
          refused = { error };
          throw error;
        });
        parts.push({ bytes: part.length, sha256: sha256(part) });
      }
    },
  ).catch((error: unknown) => {
    // Where the sender had more to send, the streams only say that they were aborted.
    throw refused ? refused.error : error;
  });
  const keys = new Set(await storage.getKeys(`${ROOT}:${id}`));
  const missing = () =>
    storageError("Parts of the backup are missing", "Make another one, and check what removes them.");
  if (parts.some((_, at) => !keys.has(keyOf(id, at)))) throw missing();
  await contents.assertShipped(missing);
  const listed = contents.count > 0 ? await shipList(storage, id, contents) : undefined;
  const generation: Generation = {
    ...{ format: listed ? 2 : 1, id, made_at: now.toISOString(), version },
    ...{ bytes: total.bytes, sha256: total.sha256(), lines: total.lines, parts },
    ...(listed && { contents: listed }),
  };
  await storage.setItemRaw(`${ROOT}:${id}:${MANIFEST}`, Buffer.from(JSON.stringify(generation, null, 2)));
  return generation;
}

async function shipList(storage: UnstorageStorage, id: string, contents: ContentsShipment) {
  const list = await contents.list();
  await storage.setItemRaw(`${ROOT}:${id}:${CONTENTS}`, list);
  return {
    list: { bytes: list.length, sha256: sha256(list) },
    ...{ chunks: contents.count, bytes: contents.size, added: contents.added },
  };
}

/** The chunks of the newest backup that has any, as far as they are there: that one was complete once all of them were. */
async function shippedBefore(storage: UnstorageStorage): Promise<ShippedChunks> {
  const there = new Set(await storage.getKeys(CONTENTS_ROOT));
  if (there.size === 0) return new Map();
  const complete = [...(await generationKeys(storage))]
    .filter(([, keys]) => isComplete(keys) && keys.some((key) => key.endsWith(`:${CONTENTS}`)))
    .map(([id]) => id)
    .sort();
  for (const id of complete.reverse()) {
    const generation = await readManifest(storage, id);
    const list = generation?.contents && (await listOf(storage, id));
    // Where it is damaged, an earlier one is read, and in the end everything is shipped again.
    if (!list || sha256(list) !== generation?.contents?.list.sha256) continue;
    return new Map([...(await readList(list))].filter(([, [, at]]) => there.has(at)));
  }
  return new Map();
}

/** The chunks that a backup names. Rejects if their list is not as it was written. */
export async function readShipped(storage: UnstorageStorage, generation: Generation): Promise<ShippedChunks> {
  const { id, contents } = generation;
  if (!contents) return new Map();
  const list = await listOf(storage, id);
  if (list === undefined) throw damaged(generation, "the list of its files is missing");
  if (sha256(list) !== contents.list.sha256)
    throw damaged(generation, "the checksum of the list of its files does not match");
  return readList(list);
}

async function listOf(storage: UnstorageStorage, id: string): Promise<Buffer | undefined> {
  return toBytes(await storage.getItemRaw(`${ROOT}:${id}:${CONTENTS}`));
}

/** What was shipped, for `saveBackup`. Rejects if any of it is missing or another than was written. */
export async function* readGeneration(
  storage: UnstorageStorage,
  generation: Generation,
): AsyncGenerator<Uint8Array, void> {
  const { id, parts, bytes, sha256: expected } = generation;
  async function* compressed(): AsyncGenerator<Buffer, void> {
    for (const [at, { sha256: hash }] of parts.entries()) {
      const part = toBytes(await storage.getItemRaw(keyOf(id, at)));
      if (part === undefined) throw damaged(generation, `part ${at + 1} of ${parts.length} is missing`);
      if (sha256(part) !== hash)
        throw damaged(generation, `the checksum of part ${at + 1} of ${parts.length} does not match`);
      yield part;
    }
  }
  const total = new Measure();
  const source = Readable.from(compressed(), { objectMode: false });
  const unzip = createGunzip();
  source.on("error", (error) => unzip.destroy(error));
  async function* checked(): AsyncGenerator<Uint8Array, void> {
    yield* total.of(source.pipe(unzip) as AsyncIterable<Buffer>);
    if (total.bytes !== bytes || total.sha256() !== expected)
      throw damaged(generation, "the checksum of its content does not match");
  }
  if (!generation.contents) return yield* checked();
  const chunks = await readShipped(storage, generation);
  yield* withContents(storage, checked(), { chunks, damaged: (what) => damaged(generation, what) });
}

/** The manifest of a generation; `undefined` where it was interrupted, and so is none. */
export async function readManifest(storage: UnstorageStorage, id: string): Promise<Generation | undefined> {
  const bytes = toBytes(await storage.getItemRaw(`${ROOT}:${id}:${MANIFEST}`));
  if (bytes === undefined) return undefined;
  const parsed = v.safeParse(GenerationSchema, parseJson(bytes.toString()));
  if (parsed.success && parsed.output.id === id) return parsed.output;
  throw storageError(
    `The manifest of the backup ${id} is damaged, or of a newer version`,
    "Update this package, or use another backup: svc store restore --from <url> --list",
  );
}

/** The time in an id, ISO 8601. */
export function timeOf(id: string): string {
  return id.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\d{3})Z.*$/, "$1-$2-$3T$4:$5:$6.$7Z");
}

/** Whether the items of a generation include its manifest. */
export function isComplete(keys: readonly string[]): boolean {
  return keys.some((key) => key.endsWith(`:${MANIFEST}`));
}

/** Keys of the items of all generations, complete or not, by id. */
export async function generationKeys(storage: UnstorageStorage): Promise<Map<string, string[]>> {
  const byId = new Map<string, string[]>();
  for (const key of await storage.getKeys(ROOT)) {
    const id = key.slice(ROOT.length + 1).split(":")[0]!;
    const keys = byId.get(id);
    if (keys === undefined) byId.set(id, [key]);
    else keys.push(key);
  }
  return byId;
}

/** Removes its items, the manifest first: what is left of an interrupted removal is no backup. */
export async function removeGeneration(storage: UnstorageStorage, keys: readonly string[]): Promise<void> {
  const manifests = keys.filter((key) => key.endsWith(`:${MANIFEST}`));
  for (const key of [...manifests, ...keys.filter((one) => !manifests.includes(one))])
    await storage.removeItem(key);
}

function keyOf(id: string, at: number): string {
  return `${ROOT}:${id}:part-${String(at + 1).padStart(5, "0")}`;
}

/** Counts what passes. */
class Measure {
  bytes = 0;
  lines = 0;
  readonly #hash = createHash("sha256");

  async *of(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
    for await (const chunk of chunks) {
      this.bytes += chunk.length;
      for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) this.lines += 1;
      this.#hash.update(chunk);
      yield chunk;
    }
  }

  sha256(): string {
    return this.#hash.digest("hex");
  }
}

/** Chunks of at least a size, except for the last. */
async function* joined(chunks: AsyncIterable<Uint8Array>, size: number): AsyncGenerator<Buffer, void> {
  let held: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of chunks) {
    held.push(chunk);
    bytes += chunk.length;
    if (bytes < size) continue;
    yield Buffer.concat(held);
    held = [];
    bytes = 0;
  }
  if (bytes > 0) yield Buffer.concat(held);
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

function damaged({ id, made_at }: Generation, what: string): Error {
  return storageError(
    `The backup ${id} of ${made_at} is damaged (${what})`,
    "Use an earlier or later one: svc store restore --from <url> --list",
  );
}

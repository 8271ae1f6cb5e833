import { createHash, randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { constants, createGunzip, createGzip } from "node:zlib";
import * as v from "valibot";
import { parseJson } from "../../base/parse-json.ts";
import type { UnstorageStorage } from "../../storage/open-storage.ts";
import { toBytes } from "../../storage/storage-driver.ts";
import { storageError } from "../storage-error.ts";

/** Backups are below this key. */
export const ROOT = "svc-backup";
const MANIFEST = "manifest.json";
/** Bytes of a part, compressed. */
const PART = 8 * 1024 * 1024;

const GenerationSchema = v.object({
  format: v.literal(1),
  /** Its place below `svc-backup`: when it was started, and some random digits. */
  id: v.string(),
  /** What is in it is of this moment, ISO 8601. */
  made_at: v.string(),
  /** Version of this package that wrote it. */
  version: v.string(),
  /** Size and SHA-256 of what `svc store backup` receives, before compression. */
  bytes: v.number(),
  sha256: v.string(),
  /** Versions of entities and entries of logs, with a line each. */
  lines: v.number(),
  parts: v.array(v.object({ bytes: v.number(), sha256: v.string() })),
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
 * Ships what `sendSnapshot` yields, compressed and in parts. An interrupted backup has no manifest, and is not one.
 */
export async function writeGeneration(
  storage: UnstorageStorage,
  sent: AsyncIterable<Uint8Array>,
  { now, version, partBytes = PART }: WriteOptions,
): Promise<Generation> {
  const id = `${now.toISOString().replace(/[-:.]/g, "")}-${randomBytes(4).toString("hex")}`;
  const total = new Measure();
  const parts: { bytes: number; sha256: string }[] = [];
  await pipeline(
    Readable.from(total.of(sent), { objectMode: false }),
    createGzip({ level: constants.Z_BEST_SPEED }),
    async (compressed: AsyncIterable<Buffer>) => {
      for await (const part of joined(compressed, partBytes)) {
        await storage.setItemRaw(keyOf(id, parts.length), part);
        parts.push({ bytes: part.length, sha256: sha256(part) });
      }
    },
  );
  const keys = new Set(await storage.getKeys(`${ROOT}:${id}`));
  if (parts.some((_, at) => !keys.has(keyOf(id, at))))
    throw storageError("Parts of the backup are missing", "Make another one, and check what removes them.");
  const generation: Generation = {
    ...{ format: 1, id, made_at: now.toISOString(), version },
    ...{ bytes: total.bytes, sha256: total.sha256(), lines: total.lines, parts },
  };
  await storage.setItemRaw(`${ROOT}:${id}:${MANIFEST}`, Buffer.from(JSON.stringify(generation, null, 2)));
  return generation;
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
  yield* total.of(source.pipe(unzip) as AsyncIterable<Buffer>);
  if (total.bytes !== bytes || total.sha256() !== expected)
    throw damaged(generation, "the checksum of its content does not match");
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

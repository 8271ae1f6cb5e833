import { pipeline, Readable } from "node:stream";
import { createGzip } from "node:zlib";

/** A file of an archive. */
export interface TarEntry {
  readonly path: string;
  /** Bytes; 0 for a link. */
  readonly size: number;
  /** Yields exactly `size` bytes. */
  readonly content: () => AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
  readonly executable?: boolean;
  /** Target of a symbolic link. */
  readonly link?: string;
}

const BLOCK = 512;
/** Largest size that the header's eleven octal digits hold: 8 GiB less one byte. */
const LARGEST = 0o77777777777;

/**
 * A tar archive (POSIX ustar with pax records for long names and large files), piece by piece. It depends on names and
 * contents only; entries are archived in the order given.
 */
export async function* toTar(
  entries: Iterable<TarEntry> | AsyncIterable<TarEntry>,
): AsyncGenerator<Uint8Array> {
  for await (const entry of entries) {
    const records = paxRecords(entry);
    if (records.length > 0) {
      const content = pax(records);
      yield header({ path: "pax", type: "x", size: content.length });
      yield content;
      yield padding(content.length);
    }
    yield header({
      ...entry,
      type: entry.link === undefined ? "0" : "2",
      size: entry.size > LARGEST ? 0 : entry.size,
    });
    yield* entry.content();
    if (entry.size % BLOCK !== 0) yield padding(entry.size);
  }
  yield Buffer.alloc(2 * BLOCK);
}

/** An archive, compressed without timestamps: equal archives give equal bytes. */
export function gzipped(tar: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  // Node's gzip writes no time and no name into its header.
  const gzip = createGzip({ level: 6 });
  pipeline(Readable.from(tar, { objectMode: false }), gzip, () => undefined);
  return gzip;
}

function header(entry: {
  readonly path: string;
  readonly type: string;
  readonly size: number;
  readonly executable?: boolean;
  readonly link?: string;
}): Buffer {
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, length: number) =>
    block.write(`${value.toString(8).padStart(length - 1, "0")}\0`, at, "ascii");
  Buffer.from(entry.path).copy(block, 0, 0, 100);
  octal(entry.executable ? 0o755 : 0o644, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(entry.size, 124, 12);
  octal(0, 136, 12);
  block.write("        ", 148, "ascii");
  block.write(entry.type, 156, "ascii");
  Buffer.from(entry.link ?? "").copy(block, 157, 0, 100);
  block.write("ustar\x0000", 257, "ascii");
  let sum = 0;
  for (const byte of block) sum += byte;
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "ascii");
  return block;
}

function padding(size: number): Buffer {
  return Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK);
}

/** The attributes of an entry that do not fit into its header. */
function paxRecords({ path, link, size }: TarEntry): [string, string][] {
  const records: [string, string][] = [];
  if (Buffer.byteLength(path) > 100 || Buffer.byteLength(link ?? "") > 100) {
    records.push(["path", path]);
    if (link !== undefined) records.push(["linkpath", link]);
  }
  if (size > LARGEST) records.push(["size", String(size)]);
  return records;
}

function pax(records: readonly [string, string][]): Buffer {
  return Buffer.concat(
    records.map(([key, value]) => {
      const rest = Buffer.byteLength(` ${key}=${value}\n`);
      // The length counts its own digits.
      let length = rest + String(rest).length;
      if (String(length).length + rest !== length) length = rest + String(length).length;
      return Buffer.from(`${length} ${key}=${value}\n`);
    }),
  );
}

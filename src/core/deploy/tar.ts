import { promisify } from "node:util";
import { gzip } from "node:zlib";

/** A file of an archive. */
export interface TarEntry {
  readonly path: string;
  readonly content: Uint8Array;
  readonly executable?: boolean;
  /** Target of a symbolic link. */
  readonly link?: string;
}

const BLOCK = 512;

/** A tar archive (POSIX ustar with pax records for long names) that depends on names and contents only. */
export function toTar(entries: readonly TarEntry[]): Buffer {
  const blocks: Buffer[] = [];
  for (const entry of [...entries].sort((a, b) => (a.path < b.path ? -1 : 1))) {
    if (Buffer.byteLength(entry.path) > 100 || Buffer.byteLength(entry.link ?? "") > 100)
      blocks.push(...record("pax", "x", pax(entry)));
    const type = entry.link === undefined ? "0" : "2";
    blocks.push(
      ...record(entry.path, type, entry.link === undefined ? entry.content : new Uint8Array(), entry),
    );
  }
  blocks.push(Buffer.alloc(2 * BLOCK));
  return Buffer.concat(blocks);
}

/** The archive compressed; equal archives give equal bytes. */
export async function toTarGz(entries: readonly TarEntry[]): Promise<Buffer> {
  // Node's gzip writes no time and no name into its header.
  return promisify(gzip)(toTar(entries), { level: 6 });
}

function record(path: string, type: string, content: Uint8Array, entry?: TarEntry): Buffer[] {
  const header = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, length: number) =>
    header.write(`${value.toString(8).padStart(length - 1, "0")}\0`, at, "ascii");
  header.write(Buffer.from(path).subarray(0, 100).toString("latin1"), 0, 100, "latin1");
  octal(entry?.executable ? 0o755 : 0o644, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(content.length, 124, 12);
  octal(0, 136, 12);
  header.write("        ", 148, "ascii");
  header.write(type, 156, "ascii");
  header.write(
    Buffer.from(entry?.link ?? "")
      .subarray(0, 100)
      .toString("latin1"),
    157,
    100,
    "latin1",
  );
  header.write("ustar\x0000", 257, "ascii");
  let sum = 0;
  for (const byte of header) sum += byte;
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "ascii");
  const padding = Buffer.alloc((BLOCK - (content.length % BLOCK)) % BLOCK);
  return [header, Buffer.from(content), padding];
}

function pax(entry: TarEntry): Buffer {
  const lines = [["path", entry.path]];
  if (entry.link !== undefined) lines.push(["linkpath", entry.link]);
  return Buffer.concat(
    lines.map(([key, value]) => {
      const rest = Buffer.byteLength(` ${key}=${value}\n`);
      // The length counts its own digits.
      let length = rest + String(rest).length;
      if (String(length).length + rest !== length) length = rest + String(length).length;
      return Buffer.from(`${length} ${key}=${value}\n`);
    }),
  );
}

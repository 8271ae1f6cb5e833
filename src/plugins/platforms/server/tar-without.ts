const BLOCK = 512;

/**
 * A tar archive without the content of some files: their entries stay and are empty. The pieces may have any size; extended
 * headers pass through unchanged, so a file that has one must not be named.
 */
export async function* tarWithout(
  archive: AsyncIterable<Uint8Array>,
  isSkipped: (path: string) => boolean,
): AsyncGenerator<Uint8Array> {
  let rest: Uint8Array = Buffer.alloc(0);
  /** Bytes up to the next header, and whether they are passed on. */
  let left = 0;
  let passes = true;
  for await (const chunk of archive) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    while (rest.length > 0) {
      if (left > 0) {
        const piece = rest.subarray(0, left);
        rest = rest.subarray(piece.length);
        left -= piece.length;
        if (passes) yield piece;
        continue;
      }
      if (rest.length < BLOCK) break;
      const header = Buffer.from(rest.subarray(0, BLOCK));
      rest = rest.subarray(BLOCK);
      const size = sizeIn(header);
      left = Math.ceil(size / BLOCK) * BLOCK;
      passes = size === 0 || !isSkipped(nameIn(header));
      yield passes ? header : emptied(header);
    }
  }
  yield rest;
}

export function nameIn(header: Buffer): string {
  return textIn(header, 0, 100);
}

export function sizeIn(header: Buffer): number {
  // Sizes above eight gibibytes are a binary number, marked by the first bit.
  if ((header[124] ?? 0) & 0x80) return Number(header.readBigUInt64BE(128));
  return Number.parseInt(textIn(header, 124, 12).trim() || "0", 8);
}

function textIn(header: Buffer, at: number, length: number): string {
  const end = header.indexOf(0, at);
  return header.toString("utf8", at, end < 0 || end > at + length ? at + length : end);
}

function emptied(header: Buffer): Buffer {
  header.write("00000000000\0", 124, "ascii");
  header.write("        ", 148, "ascii");
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "ascii");
  return header;
}

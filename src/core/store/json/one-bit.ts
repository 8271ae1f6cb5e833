import { crc32 } from "node:zlib";
import { readHex, SEAL, seal } from "./line.ts";

/** What CRC-32 makes of each byte (ISO 3309, reflected). */
const TABLE = Int32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});

/**
 * A damaged line as it was written, if a single bit explains the damage. It identifies the line's entity; it
 * must not be kept, as damage of several bits may look like one bit.
 */
export function withoutFlippedBit(line: Buffer): Buffer | undefined {
  const end = line.length - SEAL;
  if (end < 2) return undefined;
  const crc = crc32(line.subarray(0, end));
  const tail = Buffer.alloc(SEAL + 1);
  seal(tail, 0, crc);
  const differing = bitsBetween(line.subarray(end), tail.subarray(0, SEAL));
  if (differing === 1) return Buffer.concat([line.subarray(0, end), tail.subarray(0, SEAL)]);
  const written = readHex(line, line.length - 10);
  return written < 0 ? undefined : flipInside(line, end, crc ^ written);
}

/** Searches the bit that changes the checksum by `difference`, from the end. */
function flipInside(line: Buffer, end: number, difference: number): Buffer | undefined {
  const changes = Int32Array.from({ length: 8 }, (_, bit) => TABLE[1 << bit]!);
  for (let at = end - 1; at >= 0; at--) {
    for (let bit = 0; bit < 8; bit++) {
      const change = changes[bit]!;
      if (change === difference) {
        const copy = Buffer.from(line);
        copy[at] = copy[at]! ^ (1 << bit);
        return copy;
      }
      changes[bit] = TABLE[change & 255]! ^ (change >>> 8);
    }
  }
  return undefined;
}

function bitsBetween(a: Buffer, b: Buffer): number {
  let count = 0;
  for (let at = 0; at < a.length; at++) for (let rest = a[at]! ^ b[at]!; rest > 0; rest &= rest - 1) count++;
  return count;
}

import type { StoreIo } from "./io.ts";

const NEWLINE = 10;
const CHUNK = 2 * 1024 * 1024;

/** A line of a file, without its line break. Its bytes are valid only during the call. */
export interface ScannedLine {
  readonly bytes: Buffer;
  /** Where it begins in the file. */
  readonly position: number;
  /** Counted from 1. */
  readonly number: number;
  /** Whether a line break follows; only the last line can lack it. */
  readonly complete: boolean;
}

/** Calls `visit` with each line of the first `size` bytes of a file until it returns `false`; lets other work run in between. */
export async function scanLines(
  io: StoreIo,
  { file, size }: { file: number; size: number },
  visit: (line: ScannedLine) => unknown,
): Promise<void> {
  let buffer = Buffer.allocUnsafe(Math.min(CHUNK, Math.max(size, 1)));
  let kept = 0;
  let position = 0;
  let number = 0;
  for (;;) {
    const wanted = Math.min(buffer.length - kept, size - position - kept);
    const count =
      wanted === 0 ? 0 : await io.read(file, buffer.subarray(kept, kept + wanted), position + kept);
    const end = kept + count;
    let start = 0;
    for (;;) {
      const found = buffer.indexOf(NEWLINE, start);
      if (found < 0 || found >= end) break;
      const bytes = buffer.subarray(start, found);
      if (visit({ bytes, position: position + start, number: ++number, complete: true }) === false) return;
      start = found + 1;
    }
    kept = end - start;
    position += start;
    if (count === 0) {
      if (kept > 0)
        visit({ bytes: buffer.subarray(start, end), position, number: ++number, complete: false });
      return;
    }
    if (kept === buffer.length) buffer = Buffer.concat([buffer, Buffer.allocUnsafe(buffer.length)]);
    else if (start > 0) buffer.copyWithin(0, start, end);
  }
}

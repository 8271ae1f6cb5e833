import type { StoreIo } from "../../storage/file-io.ts";

const NEWLINE = 10;
const CHUNK = 2 * 1024 * 1024;

/** A line of a file, without its line break. Its bytes are valid only during the call. */
export interface ScannedLine {
  readonly bytes: Buffer;
  /** Its position in the file. */
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
  /** Bytes of a line whose end is not yet read. */
  let parts: Buffer[] = [];
  let position = 0;
  let number = 0;
  for await (const chunk of readAhead(io, file, size)) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      const last = chunk.subarray(start, end);
      const bytes = parts.length === 0 ? last : Buffer.concat([...parts, last]);
      parts = [];
      if (visit({ bytes, position, number: ++number, complete: true }) === false) return;
      position += bytes.length + 1;
      start = end + 1;
    }
    if (start < chunk.length) parts.push(Buffer.from(chunk.subarray(start)));
  }
  if (parts.length > 0) visit({ bytes: Buffer.concat(parts), position, number: ++number, complete: false });
}

/**
 * The first `size` bytes of a file in parts; while one is processed, the next is read. A part is valid until
 * the next.
 */
async function* readAhead(io: StoreIo, file: number, size: number): AsyncGenerator<Buffer, void> {
  let position = 0;
  const read = (into: Buffer) =>
    io.read(file, into.subarray(0, Math.min(into.length, size - position)), position);
  let current = Buffer.allocUnsafe(Math.min(CHUNK, size));
  let next = Buffer.allocUnsafe(current.length);
  let reading = size === 0 ? undefined : read(current);
  try {
    while (reading !== undefined) {
      const count: number = await reading;
      position += count;
      const chunk = current.subarray(0, count);
      [current, next] = [next, current];
      reading = count === 0 || position >= size ? undefined : read(current);
      if (count > 0) yield chunk;
    }
  } finally {
    // The file must not be closed before.
    await reading?.catch(() => {});
  }
}

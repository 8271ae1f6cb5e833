import { type StoreIo, writeFully } from "../../storage/file-io.ts";
import { damageError } from "./damage-error.ts";
import { isSealed, readHeader } from "./line.ts";
import type { Flaw, SegmentEnd } from "./read-segment.ts";
import { scanLines } from "./scan-lines.ts";
import type { Segment } from "./segment.ts";

/** Disks write whole sectors; all of their sizes are multiples of this one. */
const SECTOR = 512;

/** What a crash left at the end of a journal. */
export interface TornTail {
  readonly file: string;
  readonly byte: number;
  readonly line: number | undefined;
  readonly bytes: Buffer;
}

/**
 * Distinguishes a write that a crash cut short from damage. The end of a journal may be torn where the last
 * line or transaction is incomplete, or where whole sectors are missing (they read as NUL bytes, which JSON
 * never holds), and where no later line says that the hole was on disk. Throws if it is damage: cutting there
 * would silently lose acknowledged data.
 */
export async function examineTail(
  io: StoreIo,
  segment: Segment,
  { flaw, next, whole }: SegmentEnd & { flaw: Flaw },
): Promise<TornTail> {
  let torn = flaw.kind === "cut short" || flaw.kind === "transaction";
  await scanLines(io, { file: segment.file.handle, size: segment.size }, ({ bytes, position, complete }) => {
    if (position === flaw.byte && flaw.kind === "checksum") torn = lacksSectors(bytes, position);
    if (position <= flaw.byte || !complete || !isSealed(bytes)) return;
    if ((readHeader(bytes)?.k ?? 0) >= next) torn = false;
  });
  // The head of the file was on disk before the manifest named it.
  if (!torn || whole === 0) throw damageError({ file: segment.name, ...flaw });
  const bytes = Buffer.alloc(segment.size - whole);
  segment.file.readSync(bytes, whole);
  return { file: segment.name, byte: whole, line: flaw.line, bytes };
}

/** Whether a line has a run of NUL bytes that only missing sectors can explain. */
function lacksSectors(line: Buffer, position: number): boolean {
  for (let at = line.indexOf(0); at >= 0; ) {
    let end = at;
    while (end < line.length && line[end] === 0) end++;
    const begins = at === 0 || (position + at) % SECTOR === 0;
    const ends = end === line.length || (position + end) % SECTOR === 0;
    if (begins && ends) return true;
    at = line.indexOf(0, end);
  }
  return false;
}

/** Moves the bytes of a torn write aside, for inspection. The store does not need them. */
export function keepTornTail(io: StoreIo, folder: string, { file, byte, bytes }: TornTail): void {
  try {
    const copy = io.open(`${folder}/${file}.${byte}.torn`, "create");
    try {
      writeFully(io, copy, bytes, 0);
    } finally {
      io.close(copy);
    }
  } catch {
    // Kept by an earlier start, or there is no space: nothing depends on it.
  }
}

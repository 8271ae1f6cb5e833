import type { StoreIo } from "../../storage/file-io.ts";
import { missingBytes } from "./damage-error.ts";
import { isSealed, type LineHeader, readHeader } from "./line.ts";
import type { Locator } from "./locators.ts";
import { type ScannedLine, scanLines } from "./scan-lines.ts";
import type { Segment } from "./segment.ts";

/** The first damaged position of a file. */
export interface Flaw {
  readonly kind: "missing" | "checksum" | "cut short" | "order" | "transaction";
  readonly what: string;
  readonly byte: number;
  readonly line?: number;
}

/** An intact line. */
export interface StoredLine {
  readonly header: LineHeader;
  readonly at: Locator;
  /** Valid only during the call. */
  readonly bytes: Buffer;
}

export interface SegmentEnd {
  /** Where the last whole transaction ends. */
  readonly whole: number;
  /** Number of the first missing write. */
  readonly next: number;
  readonly flaw?: Flaw;
}

/**
 * Yields the lines of a file, those of a journal once their transaction is complete, up to the first damage.
 */
export async function readSegment(
  io: StoreIo,
  segment: Segment,
  visit: (line: StoredLine) => void,
): Promise<SegmentEnd> {
  const size = io.size(segment.file.handle);
  if (size < segment.size) {
    const what = missingBytes(segment.size - size);
    return { whole: size, next: 0, flaw: { kind: "missing", what, byte: size } };
  }
  const reader =
    segment.kind === "journal" ? new JournalReader(segment, visit) : new TableReader(segment, visit);
  let flaw: Flaw | undefined;
  await scanLines(io, { file: segment.file.handle, size: segment.size }, (line) => {
    const bytes = sealedPart(line);
    flaw = bytes === undefined ? brokenLine(line) : reader.take(line, bytes);
    return flaw === undefined;
  });
  flaw ??= reader.end();
  const end = { whole: reader.whole, next: reader.next };
  return flaw === undefined ? end : { ...end, flaw };
}

/** The line if it is intact, even if only the line break at the end of the file is missing or damaged. */
export function sealedPart(line: ScannedLine): Buffer | undefined {
  if (isSealed(line.bytes)) return line.bytes;
  if (line.complete) return undefined;
  const shorter = line.bytes.subarray(0, line.bytes.length - 1);
  return isSealed(shorter) ? shorter : undefined;
}

/** The problem of a damaged line. */
function brokenLine({ complete, position: byte, number: line }: ScannedLine): Flaw {
  if (!complete) return { kind: "cut short", what: "the line is cut short", byte, line };
  return { kind: "checksum", what: "the checksum does not match", byte, line };
}

/** A table file has lines in any order, all of whole transactions. */
class TableReader {
  readonly #segment: Segment;
  readonly #visit: (line: StoredLine) => void;
  whole = 0;
  next = 0;

  constructor(segment: Segment, visit: (line: StoredLine) => void) {
    this.#segment = segment;
    this.#visit = visit;
  }

  take(line: ScannedLine, bytes: Buffer): Flaw | undefined {
    this.whole = line.position + bytes.length + 1;
    if (line.number === 1) return undefined;
    const header = readHeader(bytes);
    if (header === undefined) return foreign(line);
    this.#segment.from = Math.min(this.#segment.from, header.s);
    this.#visit({ header, at: locate(this.#segment, line, bytes), bytes });
    return undefined;
  }

  end(): undefined {}
}

/** A journal has every number from its first on, and transactions whose lines count down to 0. */
class JournalReader {
  readonly #segment: Segment;
  readonly #visit: (line: StoredLine) => void;
  #open: StoredLine[] = [];
  #next = 0;
  whole = 0;

  constructor(segment: Segment, visit: (line: StoredLine) => void) {
    this.#segment = segment;
    this.#visit = visit;
  }

  get next(): number {
    return this.#open[0]?.header.s ?? this.#next;
  }

  take(line: ScannedLine, bytes: Buffer): Flaw | undefined {
    const end = line.position + bytes.length + 1;
    if (line.number === 1) {
      this.#next = (JSON.parse(bytes.toString()) as { from?: number }).from ?? 0;
      this.#segment.from = this.#next;
      this.whole = end;
      return undefined;
    }
    const header = readHeader(bytes);
    if (header === undefined) return foreign(line);
    if (header.s !== this.#next) {
      return {
        kind: "order",
        what: `write ${this.#next} is missing`,
        byte: line.position,
        line: line.number,
      };
    }
    this.#next++;
    const at = locate(this.#segment, line, bytes);
    if (header.n > 0) {
      this.#open.push({ header, at, bytes: Buffer.from(bytes) });
      return undefined;
    }
    for (const each of this.#open) this.#visit(each);
    this.#open = [];
    this.#visit({ header, at, bytes });
    this.whole = end;
    return undefined;
  }

  end(): Flaw | undefined {
    const first = this.#open[0];
    if (first === undefined) return undefined;
    return { kind: "transaction", what: "the end of the transaction is missing", byte: first.at.offset };
  }
}

function locate(segment: Segment, line: ScannedLine, bytes: Buffer): Locator {
  return { segment: segment.id, offset: line.position, length: bytes.length };
}

function foreign({ position: byte, number: line }: ScannedLine): Flaw {
  return { kind: "order", what: "it is not a line of an entity or entry", byte, line };
}

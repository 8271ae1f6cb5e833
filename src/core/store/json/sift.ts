import type { StoreIo } from "../../storage/file-io.ts";
import { isSealed, type LineHeader, type LineNames, readHeader, readNames } from "./line.ts";
import { withoutFlippedBit } from "./one-bit.ts";
import { sealedPart } from "./read-segment.ts";
import { type ScannedLine, scanLines } from "./scan-lines.ts";

/** A damaged position of a file, or a line that cannot be used without a damaged one. */
export interface Flawed {
  readonly byte: number;
  /** Counted from 1; none where a line is missing altogether. */
  readonly line?: number;
  readonly what: string;
  /** Its write; `undefined` if that is unknown, `null` if it was none. */
  readonly names: LineNames | undefined | null;
  /** The line, as originally written if that is known; valid only during the call. */
  readonly bytes: Buffer;
}

export interface Sieve {
  /** Given each line of a whole transaction; the bytes are valid only during the call. */
  keep(header: LineHeader, bytes: Buffer): void;
  drop(flawed: Flawed): void;
}

const NOTHING = Buffer.alloc(0);
const HEADER_START = Buffer.from('{"s":');
/** A line whose line break was overwritten. */
const JOINT = /"}.{1}\{"s":/s;

/**
 * Separates the lines of a file that can be kept from those that cannot, damaged or not. Of a journal only
 * whole transactions are kept: a line after a hole may be the rest of what the hole started, unless the line
 * records that the hole was on disk before.
 */
export async function siftFile(
  io: StoreIo,
  { file, size, isJournal }: { file: number; size: number; isJournal: boolean },
  sieve: Sieve,
): Promise<void> {
  const sifter = isJournal ? new JournalSifter(sieve) : new TableSifter(sieve);
  let wasDamaged = false;
  await scanLines(io, { file, size }, (line) => {
    const parts = sealedPart(line) === undefined ? splitJoined(line) : [line];
    if (parts.length > 1) sifter.joined(parts[1]!);
    for (const part of parts) {
      const bytes = sealedPart(part);
      if (part.number === 1 && part.position === 0) sifter.begin(part, bytes);
      else if (bytes === undefined) sifter.damaged(part, wasDamaged);
      else sifter.take(part, bytes);
      wasDamaged = bytes === undefined;
    }
  });
  sifter.end();
}

/** Two intact lines with a damaged line break between them. */
function splitJoined(line: ScannedLine): ScannedLine[] {
  const at = line.bytes.toString("latin1").search(JOINT);
  if (at < 0) return [line];
  const first = line.bytes.subarray(0, at + 2);
  const second = line.bytes.subarray(at + 3);
  if (!isSealed(first) || !isSealed(second)) return [line];
  const position = line.position + at + 3;
  return [
    { ...line, bytes: first, complete: true },
    { ...line, bytes: second, position },
  ];
}

/** The line's entity, as far as its bytes still show it. */
function identify(bytes: Buffer): LineNames | undefined {
  try {
    return readNames(bytes);
  } catch {
    return undefined;
  }
}

function describe({ complete }: ScannedLine): string {
  return complete ? "the checksum does not match" : "the line is cut short";
}

/** A table file has lines in any order, all of whole transactions. */
class TableSifter {
  protected readonly sieve: Sieve;

  constructor(sieve: Sieve) {
    this.sieve = sieve;
  }

  begin(line: ScannedLine, bytes: Buffer | undefined): void {
    if (bytes === undefined) this.drop(line, "the head of the file is damaged", null);
  }

  damaged(line: ScannedLine, isAfterDamage: boolean): void {
    // A byte may have become a line break: then the rest of the line is not a line.
    const isRest = isAfterDamage && !line.bytes.subarray(0, HEADER_START.length).equals(HEADER_START);
    const bytes = withoutFlippedBit(line.bytes) ?? line.bytes;
    this.drop({ ...line, bytes }, describe(line), isRest ? null : identify(bytes));
  }

  /** An intact line, like the one before it; only the line break between them is damaged. */
  joined({ position, number: line }: ScannedLine): void {
    this.sieve.drop({
      byte: position - 1,
      line,
      what: "a line break was overwritten",
      names: null,
      bytes: NOTHING,
    });
  }

  take(line: ScannedLine, bytes: Buffer): void {
    const header = readHeader(bytes);
    if (header === undefined) this.drop(line, "it is not a line of an entity or entry", null);
    else this.sieve.keep(header, bytes);
  }

  end(): void {}

  protected drop(line: ScannedLine, what: string, names: Flawed["names"]): void {
    this.sieve.drop({ byte: line.position, line: line.number, what, names, bytes: line.bytes });
  }
}

/** A journal has every number from its first on, and transactions whose lines count down to 0. */
class JournalSifter extends TableSifter {
  /** Lines of a transaction whose end was not read yet. */
  #open: { line: ScannedLine; header: LineHeader }[] = [];
  #next: number | undefined;
  /** Whether something before this line cannot be kept. */
  #isBroken = false;
  /** Number of the last write that is known to belong to a transaction of which a line is missing. */
  #cutUntil = -1;

  override begin(line: ScannedLine, bytes: Buffer | undefined): void {
    super.begin(line, bytes);
    this.#isBroken = bytes === undefined;
    if (bytes !== undefined) this.#next = (JSON.parse(bytes.toString()) as { from?: number }).from;
  }

  override damaged(line: ScannedLine, isAfterDamage: boolean): void {
    this.#isBroken = true;
    super.damaged(line, isAfterDamage);
  }

  override take(line: ScannedLine, bytes: Buffer): void {
    const header = readHeader(bytes);
    if (header === undefined) {
      this.#isBroken = true;
      this.drop(line, "it is not a line of an entity or entry", null);
      return;
    }
    if (this.#isBroken || header.s !== this.#next) this.#goOnBehindHole(line, header);
    this.#isBroken = false;
    this.#next = header.s + 1;
    if (header.s <= this.#cutUntil) {
      this.drop(line, "a line of its transaction is missing", header);
      return;
    }
    if (header.n > 0) {
      const copy = Buffer.from(bytes);
      this.#open.push({ line: { ...line, bytes: copy }, header });
      return;
    }
    for (const each of this.#open) this.sieve.keep(each.header, each.line.bytes);
    this.#open = [];
    this.sieve.keep(header, bytes);
  }

  override end(): void {
    this.#dropOpen("the end of the transaction is missing");
  }

  #goOnBehindHole(line: ScannedLine, { s, k, n }: LineHeader): void {
    if (!this.#isBroken && this.#next !== undefined) {
      const what =
        s > this.#next
          ? `write ${this.#next} is missing`
          : `found write ${s} where ${this.#next} was expected`;
      this.sieve.drop({ byte: line.position, what, names: undefined, bytes: NOTHING });
    }
    this.#dropOpen("a line of its transaction is missing");
    const isNew = s > this.#cutUntil && (this.#cutUntil === s - 1 || k >= s - 1);
    if (!isNew) this.#cutUntil = Math.max(this.#cutUntil, s + n);
  }

  #dropOpen(what: string): void {
    for (const { line, header } of this.#open) {
      this.drop(line, what, header);
      this.#cutUntil = header.s + header.n;
    }
    this.#open = [];
  }
}

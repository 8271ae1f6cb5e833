import { crc32 } from "node:zlib";
import { isRecord } from "../../base/is-record.ts";
import { readFully, type StoreIo, writeFully } from "../../storage/file-io.ts";
import type { IndexSlice } from "../engine/index-slice.ts";

/** A change of what a checkpoint contains gives it another number: one with another number is not used. */
const FORMAT = 1;

/** What a manifest says of the checkpoint that belongs to it. */
export interface CheckpointName {
  readonly name: string;
  readonly size: number;
  /** CRC32 of its bytes. */
  readonly sum: number;
}

/** A sealed file of lines whose content the checkpoint has. */
export interface CoveredFile {
  readonly name: string;
  readonly size: number;
  /** When its content last changed, in milliseconds. */
  readonly modified: number;
  /** As in a `Segment`. */
  readonly from: number;
  readonly bare: number;
  readonly isOutdated: boolean;
  readonly needed: number;
  /** Of each line that removes something: number of the write, offset, length. */
  readonly removals: readonly number[];
}

export interface CheckpointHead {
  readonly format: typeof FORMAT;
  /** The order of bytes in numbers. */
  readonly bytes: string;
  readonly files: readonly CoveredFile[];
  /** Number of entities in each table. */
  readonly sizes: Readonly<Record<string, number>>;
}

/** Locations of lines, and the numbers of their writes. */
export interface Places {
  readonly segments: Uint32Array;
  readonly offsets: Uint32Array;
  readonly lengths: Uint32Array;
  readonly seqs: Float64Array;
}

export interface TablePart {
  readonly table: string;
  /** Of its index; `null` where the service does not know the table. */
  readonly version: string | null;
  /** The slots that the entities had. */
  readonly slots: Uint32Array;
  readonly slice: IndexSlice;
  readonly places: Places;
}

/** An order of a table: it may differ from that of the entities by what changed in the meantime. */
export interface OrderPart {
  readonly ordered: string;
  readonly field: string;
  readonly slots: Uint32Array;
}

export interface LogPart {
  readonly log: string;
  readonly keys: readonly string[];
  /** Number of entries of each key. */
  readonly counts: readonly number[];
  readonly places: Places;
}

export interface CheckpointEnd {
  /** Number of the last write that may be in it. */
  readonly last: number;
  /** Whether a journal was being written to then. */
  readonly hasActive: boolean;
  /** Names of the files that `segments` name, by number. */
  readonly names: Readonly<Record<number, string>>;
}

export type CheckpointPart = CheckpointHead | TablePart | OrderPart | LogPart | CheckpointEnd;

const ENDIAN = new Uint8Array(Uint32Array.of(1).buffer)[0] === 1 ? "little" : "big";
export const headOf = (rest: Omit<CheckpointHead, "format" | "bytes">): CheckpointHead => ({
  ...{ format: FORMAT, bytes: ENDIAN },
  ...rest,
});

/** Why a checkpoint cannot be used. It is no damage: everything is in the files of lines. */
export class UnfitCheckpoint extends Error {
  override readonly name = "UnfitCheckpoint";
}

type Numbers = Float64Array | Uint32Array | Uint16Array;
const ARRAYS = { Float64Array, Uint32Array, Uint16Array };

/**
 * Writes the parts of a checkpoint: of each the length of its JSON and of its numbers, the JSON, and the numbers, to which
 * the JSON refers by their type, place and count.
 */
export class CheckpointWriter {
  readonly #io: StoreIo;
  readonly #file: number;
  size = 0;
  sum = 0;

  constructor(io: StoreIo, file: number) {
    this.#io = io;
    this.#file = file;
  }

  add(part: CheckpointPart): void {
    const chunks: Uint8Array[] = [];
    let length = 0;
    const packed = mapNumbers(part, (numbers) => {
      const at = length;
      const bytes = new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
      const rest = new Uint8Array(aligned(bytes.length) - bytes.length);
      length += bytes.length + rest.length;
      chunks.push(bytes, rest);
      return { $: numbers.constructor.name as keyof typeof ARRAYS, at, count: numbers.length };
    });
    const json = JSON.stringify(packed);
    const spaces = " ".repeat(aligned(Buffer.byteLength(json)) - Buffer.byteLength(json));
    const text = Buffer.from(json + spaces);
    const head = Buffer.alloc(8);
    head.writeUInt32LE(text.length, 0);
    head.writeUInt32LE(length, 4);
    const bytes = Buffer.concat([head, text, ...chunks]);
    writeFully(this.#io, this.#file, bytes, this.size);
    this.size += bytes.length;
    this.sum = crc32(bytes, this.sum);
  }
}

/** Where numbers may start. */
function aligned(length: number): number {
  return Math.ceil(length / 8) * 8;
}

/** Bytes that are read together while the checksum is computed. */
const CHUNK = 1024 * 1024;

/** Throws unless a file is exactly the checkpoint that the manifest names. */
export function checkSum(io: StoreIo, file: number, { size, sum }: CheckpointName): void {
  if (io.size(file) !== size) throw new UnfitCheckpoint("its size is not that of the manifest");
  const chunk = Buffer.allocUnsafe(Math.min(CHUNK, size));
  let found = 0;
  for (let at = 0; at < size; ) {
    const count = readFully(io, file, chunk.subarray(0, Math.min(chunk.length, size - at)), at);
    if (count === 0) throw new UnfitCheckpoint("it is cut short");
    found = crc32(chunk.subarray(0, count), found);
    at += count;
  }
  if (found !== sum) throw new UnfitCheckpoint("its checksum does not match");
}

/** The parts of a checkpoint, whose checksum must have been checked. The numbers of each are valid until the next. */
export function* readParts(io: StoreIo, file: number, size: number): Generator<CheckpointPart, void> {
  const head = Buffer.alloc(8);
  let room = Buffer.from(new ArrayBuffer(CHUNK));
  for (let at = 0; at < size; ) {
    readFully(io, file, head, at);
    const [text, length] = [head.readUInt32LE(0), head.readUInt32LE(4)];
    if (text + length > room.length) room = Buffer.from(new ArrayBuffer(aligned((text + length) * 1.5)));
    const bytes = room.subarray(0, text + length);
    readFully(io, file, bytes, at + 8);
    at += 8 + bytes.length;
    yield unpacked(JSON.parse(bytes.toString("utf8", 0, text)), bytes.subarray(text)) as CheckpointPart;
  }
}

/** The last part. */
export function readEnd(io: StoreIo, file: number, size: number): CheckpointEnd {
  const head = Buffer.alloc(8);
  let last = 0;
  for (let at = 0; at < size; ) {
    readFully(io, file, head, at);
    last = at;
    at += 8 + head.readUInt32LE(0) + head.readUInt32LE(4);
  }
  const bytes = Buffer.alloc(size - last - 8);
  readFully(io, file, bytes, last + 8);
  const end = JSON.parse(bytes.toString()) as CheckpointPart;
  if (!("names" in end)) throw new UnfitCheckpoint("it has no end");
  return end;
}

/** A copy of an object, and of those in it, with other values in place of arrays of numbers. */
function mapNumbers(object: object, map: (numbers: Numbers) => NumbersPlace): object {
  const mapped = Object.entries(object).map(([name, value]: [string, unknown]) => {
    if (ArrayBuffer.isView(value)) return [name, map(value as Numbers)];
    return [name, isRecord(value) ? mapNumbers(value, map) : value];
  });
  return Object.fromEntries(mapped);
}

/** The reverse. */
function unpacked(value: unknown, numbers: Buffer): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  if (typeof (value as NumbersPlace).$ === "string") return numbersOf(numbers, value as NumbersPlace);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, unpacked(each, numbers)]));
}

interface NumbersPlace {
  readonly $: keyof typeof ARRAYS;
  readonly at: number;
  readonly count: number;
}

function numbersOf(bytes: Buffer, { $: type, at, count }: NumbersPlace): Numbers {
  return new ARRAYS[type](bytes.buffer as ArrayBuffer, bytes.byteOffset + at, count);
}

/** Throws unless a part is the head of a checkpoint that this version, on this machine, can use. */
export function checkHead(part: CheckpointPart | undefined): CheckpointHead {
  if (part === undefined || !("format" in part)) throw new UnfitCheckpoint("it has no beginning");
  if (part.format !== FORMAT) throw new UnfitCheckpoint(`it has format ${String(part.format)}`);
  if (part.bytes !== ENDIAN) throw new UnfitCheckpoint("it is of another kind of processor");
  return part;
}

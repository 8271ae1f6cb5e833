import { crc32 } from "node:zlib";
import type { Change } from "../engine/backend.ts";
import type { IndexRecord } from "../engine/table-index.ts";
import type { IndexValue } from "../store.ts";

/**
 * The header of a line: `s` number of the write, `k` the last number known to be on disk when it was written,
 * `n` lines that follow in the same transaction, `t` table or log, `id` entity or key, `i` number of a log
 * entry (0 clears the key), `v` version of the index, `x` searchable text, `ix` index values. Then `d`, the
 * entity or entry as given (`null` removes), and `c`, the checksum of all that precedes it. A changed entity
 * is written without `v`, `x` and `ix`, which are expensive there; a compaction adds them to its newest line.
 */
export interface LineHeader {
  readonly s: number;
  readonly k: number;
  readonly n: number;
  readonly t: string;
  readonly id: string;
  readonly i?: number;
  readonly v?: string;
  readonly x?: string;
  readonly ix?: Readonly<Record<string, IndexValue>>;
}

/** The index of an entity, with the version of its table's index. */
export interface LineIndex {
  readonly version: string;
  readonly record: IndexRecord;
}

/** Marks the start of the body. It cannot occur inside a JSON string because quotes are escaped there. */
const BODY_TEXT = ',"d":';
const BODY = Buffer.from(BODY_TEXT);
/** Marks the start of the body after an index. */
const INDEXED_BODY = Buffer.from('},"d":');
const INDEX_TEXT = ',"ix":{';
const INDEX = Buffer.from(INDEX_TEXT);
/** Length of `,"c":"01234567"}`. */
export const SEAL = 16;
const CHECKSUM = Buffer.from(',"c":"');
/** Characters from which on text is not joined with others before it is encoded. */
const SHORT = 512;
const NEWLINE = 10;
const QUOTE = 34;
const BRACE = 125;
const HEX = Buffer.from("0123456789abcdef");

/** Collects lines in one reused buffer. */
export class LineBuffer {
  #buffer = Buffer.allocUnsafe(256 * 1024);
  length = 0;

  /** Adds a line of a header and a body in parts; returns its length without the line break. */
  add(header: string, body: readonly string[]): number {
    let room = (header.length + 32) * 3;
    for (const text of body) room += text.length > 65_536 ? Buffer.byteLength(text) : text.length * 3;
    if (this.length + room > this.#buffer.length) this.#grow(this.length + room);
    const buffer = this.#buffer;
    const start = this.length;
    let at = start;
    // Each call out of JavaScript costs more than joining a few short texts.
    let short = header;
    for (const text of body) {
      if (text.length < SHORT) {
        short += text;
        continue;
      }
      at += buffer.write(short, at);
      at += buffer.write(text, at);
      short = "";
    }
    if (short !== "") at += buffer.write(short, at);
    at = seal(buffer, at, crc32(buffer.subarray(start, at)));
    this.length = at;
    return at - start - 1;
  }

  /** Adds a line that is already sealed. */
  addBytes(line: Uint8Array): void {
    if (this.length + line.length + 1 > this.#buffer.length) this.#grow(this.length + line.length + 1);
    this.#buffer.set(line, this.length);
    this.#buffer[this.length + line.length] = NEWLINE;
    this.length += line.length + 1;
  }

  bytes(): Buffer {
    return this.#buffer.subarray(0, this.length);
  }

  /** Removes everything after a position. */
  cut(length: number): void {
    this.length = length;
  }

  /** Empties it, and lets go of the room that an unusually large line took. */
  clear(): void {
    this.length = 0;
    if (this.#buffer.length > 8 * 1024 * 1024) this.#buffer = Buffer.allocUnsafe(256 * 1024);
  }

  #grow(needed: number): void {
    const next = Buffer.allocUnsafe(Math.max(needed, this.#buffer.length * 2));
    this.#buffer.copy(next, 0, 0, this.length);
    this.#buffer = next;
  }
}

/** Writes the end of a line; returns where the next one begins. */
export function seal(buffer: Buffer, start: number, crc: number): number {
  let at = start;
  for (let byte = 0; byte < CHECKSUM.length; byte++) buffer[at++] = CHECKSUM[byte]!;
  for (let shift = 28; shift >= 0; shift -= 4) buffer[at++] = HEX[(crc >>> shift) & 15]!;
  buffer[at++] = QUOTE;
  buffer[at++] = BRACE;
  buffer[at++] = NEWLINE;
  return at;
}

/** The header of a change, up to and including `"d":`. */
export function headerOf(
  change: Change,
  version: string,
  numbers: { s: number; k: number; n: number },
): string {
  const start = `{"s":${numbers.s},"k":${numbers.k},"n":${numbers.n},"t":`;
  if (change.kind === "put") {
    const index = change.isNew ? indexText({ version, record: change.record }) : "";
    return `${start}"${change.table.name}","id":${JSON.stringify(change.id)}${index},"d":`;
  }
  if (change.kind === "delete") {
    return `${start}"${change.table.name}","id":${JSON.stringify(change.id)},"ix":{},"d":`;
  }
  return `${start}"${change.log.name}","id":${JSON.stringify(change.key)},"i":${change.last},"ix":{},"d":`;
}

function indexText({ version, record: { values, text } }: LineIndex): string {
  return `,"v":"${version}","x":${JSON.stringify(text)},"ix":${JSON.stringify(values)}`;
}

/** The body of a change's line. */
export function bodyOf(change: Change): readonly string[] {
  if (change.kind === "put") return change.body.texts;
  return [change.kind === "append" ? change.text : "null"];
}

/** Whether a line (without its line break) is intact. */
export function isSealed(line: Buffer): boolean {
  const end = line.length - SEAL;
  if (end < 2 || line[line.length - 2] !== QUOTE || line[line.length - 1] !== BRACE) return false;
  for (let at = 0; at < CHECKSUM.length; at++) if (line[end + at] !== CHECKSUM[at]) return false;
  return readHex(line, end + CHECKSUM.length) === crc32(line.subarray(0, end));
}

/** Eight lower-case hexadecimal digits as a number; -1 if they are not. */
export function readHex(line: Buffer, start: number): number {
  let value = 0;
  for (let at = start; at < start + 8; at++) {
    const code = line[at]!;
    const digit = code >= 48 && code <= 57 ? code - 48 : code >= 97 && code <= 102 ? code - 87 : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

/** The header of a sealed line; `undefined` if the line is not of an entity or entry. */
export function readHeader(line: Buffer): LineHeader | undefined {
  // Searching its end in a string is much faster than in bytes, and most headers are short.
  const start = line.toString("utf8", 0, Math.min(line.length, 512));
  const short = start.indexOf(BODY_TEXT);
  if (short > 0 && (start[short - 1] === "}" || !start.slice(0, short).includes(INDEX_TEXT)))
    return JSON.parse(`${start.slice(0, short)}}`) as LineHeader;
  const end = headerEnd(line);
  return end < 0 ? undefined : (JSON.parse(`${line.toString("utf8", 0, end)}}`) as LineHeader);
}

/** The end of a line's header; -1 if it has none. */
function headerEnd(line: Buffer): number {
  const end = line.indexOf(BODY);
  if (end < 0 || line[end - 1] === BRACE) return end;
  // It follows the id, or the value of an index field, if another field has the same name as the body.
  if (!line.subarray(0, end).includes(INDEX)) return end;
  const indexed = line.indexOf(INDEXED_BODY, end);
  return indexed < 0 ? -1 : indexed + 1;
}

/**
 * A sealed line with another index, or a first one, and with a new checksum. The body's bytes are copied
 * unchanged.
 */
export function withIndex(line: Buffer, { s, t, id }: LineNames, index: LineIndex): Buffer {
  const names = `{"s":${s},"k":0,"n":0,"t":${JSON.stringify(t)},"id":${JSON.stringify(id)}`;
  const header = Buffer.from(`${names}${indexText(index)}`);
  const body = line.subarray(headerEnd(line), line.length - SEAL);
  const size = header.length + body.length;
  const bytes = Buffer.allocUnsafe(size + SEAL + 1);
  bytes.set(header);
  bytes.set(body, header.length);
  seal(bytes, size, crc32(bytes.subarray(0, size)));
  return bytes.subarray(0, size + SEAL);
}

/** The write of a line, and its entity or entry. */
export type LineNames = Pick<LineHeader, "s" | "t" | "id" | "i" | "v">;

/** The start of a header whose names need no escaping. */
const NAMES =
  /^\{"s":(\d+),"k":\d+,"n":\d+,"t":"([\x20-\x21\x23-\x5b\x5d-\x7e]+)","id":"([\x20-\x21\x23-\x5b\x5d-\x7e]*)",(?:"i":(\d+),)?(?:"v":"([0-9a-f]+)",)?/;

/**
 * The names of a sealed line, mostly without parsing its header; `undefined` if it is not of an entity or
 * entry.
 */
export function readNames(line: Buffer): LineNames | undefined {
  const names = NAMES.exec(line.toString("latin1", 0, 256));
  if (names === null) return readHeader(line);
  const [, s, t, id, i, v] = names;
  return {
    s: Number(s),
    t: t!,
    id: id!,
    ...(i === undefined ? {} : { i: Number(i) }),
    ...(v === undefined ? {} : { v }),
  };
}

/** The body of a sealed line, as JSON. */
export function readBody(line: Buffer): string {
  return line.toString("utf8", headerEnd(line) + BODY.length, line.length - SEAL);
}

/** The first line of every file. */
export function fileHeader(fields: { kind: string; from: number }): Buffer {
  const lines = new LineBuffer();
  lines.add(`{"format":1,"kind":${JSON.stringify(fields.kind)},"from":`, [String(fields.from)]);
  return Buffer.from(lines.bytes());
}

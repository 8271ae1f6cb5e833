import { storageError } from "../storage-error.ts";

const NEWLINE = 10;
/** Characters of a line, at most. */
const LONGEST = 16 * 1024 * 1024;

/** Reads lines and counted bytes of what a backup sends, from chunks of any size. */
export class ByteReader {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #rest: Buffer;

  /** `held` is what was read before. */
  constructor(chunks: AsyncIterator<Uint8Array>, held: Buffer = Buffer.alloc(0)) {
    this.#chunks = chunks;
    this.#rest = held;
  }

  async line(): Promise<string> {
    let line = Buffer.alloc(0);
    for (;;) {
      const end = this.#rest.indexOf(NEWLINE);
      if (end >= 0) {
        line = Buffer.concat([line, this.#rest.subarray(0, end)]);
        this.#rest = this.#rest.subarray(end + 1);
        return line.toString();
      }
      line = Buffer.concat([line, this.#rest]);
      if (line.length > LONGEST) return "";
      await this.#next();
    }
  }

  async *take(size: number): AsyncGenerator<Uint8Array, void> {
    for (let left = size; left > 0; ) {
      if (this.#rest.length === 0) await this.#next();
      const part = this.#rest.subarray(0, left);
      this.#rest = this.#rest.subarray(part.length);
      left -= part.length;
      yield part;
    }
  }

  /** As many bytes, together. */
  async bytes(size: number): Promise<Buffer> {
    const parts: Uint8Array[] = [];
    for await (const part of this.take(size)) parts.push(Buffer.from(part));
    return Buffer.concat(parts);
  }

  /** All that is left. */
  async *all(): AsyncGenerator<Uint8Array, void> {
    if (this.#rest.length > 0) yield this.#rest;
    for (;;) {
      const { value, done } = await this.#chunks.next();
      if (done) return;
      yield value;
    }
  }

  /** All that is left, without the empty line that it must end with. */
  async *untilEmptyLine(): AsyncGenerator<Uint8Array, void> {
    // The last two bytes are held back.
    for (let held = this.#rest; ; ) {
      const { value, done } = await this.#chunks.next();
      if (done) {
        if (held.length < 2 || held.at(-1) !== NEWLINE || held.at(-2) !== NEWLINE) throw interrupted();
        yield held.subarray(0, -1);
        return;
      }
      const all = Buffer.concat([held, value]);
      yield all.subarray(0, -2);
      held = Buffer.from(all.subarray(-2));
    }
  }

  async #next(): Promise<void> {
    const { value, done } = await this.#chunks.next();
    if (done) throw interrupted();
    this.#rest = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  }
}

/** A reader of what comes with its first line; without one where there is none. */
export async function firstLine(
  chunks: AsyncIterator<Uint8Array>,
): Promise<{ readonly line: string | undefined; readonly reader: ByteReader }> {
  let held = Buffer.alloc(0);
  while (!held.includes(NEWLINE)) {
    const { value, done } = await chunks.next();
    if (done) return { line: undefined, reader: new ByteReader(chunks, held) };
    held = Buffer.concat([held, value]);
  }
  const reader = new ByteReader(chunks, held);
  return { line: await reader.line(), reader };
}

function interrupted(): Error {
  return storageError("The backup was interrupted", "Delete the incomplete copy and repeat the backup.");
}

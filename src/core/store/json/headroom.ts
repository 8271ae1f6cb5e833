import { codeOf, type StoreIo, writeFully } from "../../storage/file-io.ts";
import type { Segment } from "./segment.ts";
import type { SharedFile } from "./shared-file.ts";

/** Milliseconds without a write after which the zeros are removed. */
export const HEADROOM_IDLE = 1000;
/** Larger writes take so long that a faster sync does not matter. */
const SMALL = 32 * 1024;
/** Bytes that are checked at a time to find where zeros start. */
const CHUNK = 64 * 1024;

export interface HeadroomOptions {
  /** Zeros that are written at a time. */
  readonly bytes: number;
  /** Consecutive writes after which the zeros are worthwhile. */
  readonly after: number;
}

/** The default of a store. */
export const HEADROOM: HeadroomOptions = { bytes: 512 * 1024, after: 32 };

/**
 * Zeros after the end of the active journal. Overwriting bytes is on disk sooner than making a file longer,
 * as the new size must be stored too. They are present only during consecutive writes; JSON never contains a
 * zero byte, so no start reads them as a line.
 */
export class Headroom {
  readonly #io: StoreIo;
  readonly #options: HeadroomOptions;
  /** The file that has them, up to `#end`. */
  #file: SharedFile | undefined;
  #end = 0;
  #writes = 0;
  #lastWrite = Number.NEGATIVE_INFINITY;
  #zeros: Buffer | undefined;

  constructor(io: StoreIo, options: HeadroomOptions) {
    this.#io = io;
    this.#options = options;
  }

  get isThere(): boolean {
    return this.#file !== undefined;
  }

  /** Notes a write of so many bytes at a time; returns whether there should be more zeros before it. */
  isShort({ file, size }: Segment, length: number, now: number): boolean {
    this.#writes = now - this.#lastWrite < HEADROOM_IDLE ? this.#writes + 1 : 0;
    this.#lastWrite = now;
    if (this.#writes < this.#options.after || length > SMALL) return false;
    return this.#file !== file || size + length > this.#end;
  }

  /**
   * Writes zeros after the end of a journal and syncs them. If there is no space for them, there are none.
   */
  async make(active: Segment): Promise<void> {
    const { file, size } = active;
    this.#zeros ??= Buffer.alloc(this.#options.bytes);
    try {
      writeFully(this.#io, file.handle, this.#zeros, size);
    } catch (error) {
      this.#writes = 0;
      this.forget();
      this.#io.truncate(file.handle, size);
      if (codeOf(error) === undefined) throw error;
      return;
    }
    await this.#io.sync(file.handle);
    this.#file = file;
    this.#end = size + this.#options.bytes;
  }

  /** Removes them again. */
  drop({ file, size }: Segment): void {
    const isThere = this.#file === file;
    this.forget();
    if (isThere) this.#io.truncate(file.handle, size);
  }

  /** Whether nothing was written for a while. */
  isIdle(now: number): boolean {
    return now - this.#lastWrite >= HEADROOM_IDLE;
  }

  /** Assumes that there are none. */
  forget(): void {
    this.#file = undefined;
    this.#end = 0;
  }
}

/** The size of a file without the zeros at its end. */
export function sizeWithoutZeros(io: StoreIo, file: number): number {
  let size = io.size(file);
  const chunk = Buffer.allocUnsafe(Math.min(CHUNK, size));
  while (size > 0) {
    const from = Math.max(0, size - chunk.length);
    const count = io.readSync(file, chunk.subarray(0, size - from), from);
    let end = count;
    while (end > 0 && chunk[end - 1] === 0) end--;
    if (end > 0 || count === 0) return from + end;
    size = from;
  }
  return 0;
}

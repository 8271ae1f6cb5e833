import { writeFully } from "../../storage/file-io.ts";
import type { FileSet } from "./file-set.ts";
import { LineBuffer } from "./line.ts";
import type { Locator } from "./locators.ts";
import type { Segment } from "./segment.ts";

/** Bytes that are written together. */
const BLOCK = 1024 * 1024;

/** Writes lines of one table to new files, none much longer than the limit. */
export class TableWriter {
  readonly #files: FileSet;
  readonly #table: string;
  readonly #limit: number;
  readonly #lines = new LineBuffer();
  readonly segments: Segment[] = [];
  #current: Segment | undefined;
  #written = 0;

  constructor(files: FileSet, table: string, limit: number) {
    this.#files = files;
    this.#table = table;
    this.#limit = limit;
  }

  /** Adds a line; returns its location. */
  add(line: Buffer, seq: number): Locator {
    if (this.#current === undefined || this.#current.size >= this.#limit) this.#begin();
    const segment = this.#current!;
    const at = { segment: segment.id, offset: segment.size, length: line.length };
    this.#lines.addBytes(line);
    segment.size += line.length + 1;
    segment.from = Math.min(segment.from, seq);
    if (this.#lines.length >= BLOCK) this.#flush();
    return at;
  }

  /** Adds a removal that matters: it is not obsolete, although nothing will point to it. */
  addRemoval(line: Buffer, seq: number): void {
    const at = this.add(line, seq);
    const { removals } = this.#current!;
    removals.add(seq, at);
    removals.needed += at.length + 1;
  }

  /** Resolves once all lines are on disk. */
  async finish(): Promise<void> {
    this.#flush();
    for (const segment of this.segments) await this.#files.io.sync(segment.file.handle);
  }

  discard(): void {
    for (const segment of this.segments) this.#files.discard(segment);
  }

  #begin(): void {
    this.#flush();
    this.#current = this.#files.create(this.#table, Number.MAX_SAFE_INTEGER);
    this.segments.push(this.#current);
    this.#written = this.#current.size;
  }

  #flush(): void {
    if (this.#current === undefined) return;
    writeFully(this.#files.io, this.#current.file.handle, this.#lines.bytes(), this.#written);
    this.#written += this.#lines.length;
    this.#lines.clear();
  }
}

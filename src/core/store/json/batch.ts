import type { Change } from "../engine/backend.ts";
import { bodyOf, headerOf, LineBuffer } from "./line.ts";

/** Changes that become durable together, and the callback. */
export interface Commit {
  readonly changes: readonly Change[];
  readonly done: (error?: Error) => void;
}

/**
 * The most commits, or bytes, that are written together, so that the first does not wait for too many others.
 */
const MOST = 1024;
const MOST_BYTES = 4 * 1024 * 1024;

/** Commits with their lines, as they will be written. */
export class Batch {
  readonly #versionOf: (change: Change) => string;
  readonly #lines = new LineBuffer();
  /** Waiting commits in their order. Only the batch changes it. */
  commits: Commit[] = [];
  /** Lengths of their lines, without line breaks. Only the batch changes it. */
  lengths: number[] = [];
  /** Number of the last write before it. */
  #before = 0;
  /** Number of the last write that was known to be on disk when its last commit was added. */
  #known = 0;

  constructor(versionOf: (change: Change) => string) {
    this.#versionOf = versionOf;
  }

  get isFull(): boolean {
    return this.commits.length >= MOST || this.#lines.length >= MOST_BYTES;
  }

  /**
   * Adds a commit. `before` is the number of the last write before the batch, `known` that of the last one
   * known to be on disk. If it throws, nothing was added.
   */
  add(commit: Commit, before: number, known: number): void {
    const { length } = this.#lines;
    const count = this.lengths.length;
    if (this.commits.length === 0) this.#before = before;
    this.#known = known;
    try {
      this.#addLines(commit.changes);
    } catch (error) {
      this.#lines.cut(length);
      this.lengths.length = count;
      throw error;
    }
    this.commits.push(commit);
  }

  /**
   * The bytes to write. The last commit records how far the disk has come, so that a hole can be
   * distinguished from a write that a crash cut short.
   */
  bytes(known: number): Buffer {
    if (this.#known !== known) {
      const last = this.commits.pop()!;
      const dropped = this.lengths.splice(this.lengths.length - last.changes.length);
      this.#lines.cut(dropped.reduce((at, length) => at - length - 1, this.#lines.length));
      this.add(last, this.#before, known);
    }
    return this.#lines.bytes();
  }

  /** Empties it; returns the commits it had. */
  clear(): readonly Commit[] {
    const commits = this.commits;
    this.commits = [];
    this.lengths = [];
    this.#lines.clear();
    return commits;
  }

  #addLines(changes: readonly Change[]): void {
    for (let at = 0; at < changes.length; at++) {
      const change = changes[at]!;
      const s = this.#before + this.lengths.length + 1;
      const header = headerOf(change, this.#versionOf(change), {
        s,
        k: this.#known,
        n: changes.length - at - 1,
      });
      this.lengths.push(this.#lines.add(header, bodyOf(change)));
    }
  }
}

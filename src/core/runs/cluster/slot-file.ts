import { closeSync, constants, ftruncateSync, openSync, readFileSync, writeSync } from "node:fs";

/** Bytes of a slot. */
export const SLOT_SIZE = 1024;
/** Slots without a change between two that have one, that are written with them: a further write costs more. */
const GAP = 3;
/** What a slot without a note begins with. */
const EMPTY = Buffer.from("-");

/**
 * A file of slots that are overwritten, each with one line of text. Nothing is synced: what a process has written survives
 * its crash. If the file cannot be opened, created or written, nothing is noted.
 */
export class SlotFile {
  readonly #file: number | undefined;
  /** The content of the file, with what is not written yet. */
  #image: Buffer;
  /** Slots that are not written yet. */
  readonly #changed = new Set<number>();
  #isOpen = true;

  constructor(path: string) {
    try {
      this.#file = openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
      this.#image = readFileSync(this.#file);
    } catch {
      this.#file = undefined;
      this.#image = Buffer.alloc(0);
    }
  }

  /** The lines of all slots; what a slot had before may follow in it. */
  lines(): string[] {
    const count = Math.ceil(this.#image.length / SLOT_SIZE);
    return Array.from({ length: count }, (_, at) => {
      const slot = this.#image.subarray(at * SLOT_SIZE, (at + 1) * SLOT_SIZE);
      const end = slot.indexOf("\n");
      return slot.toString("utf8", 0, end < 0 ? slot.length : end);
    });
  }

  /** Sets the line of a slot, which is written at the next `flush`. */
  set(at: number, line: string): void {
    const bytes = Buffer.from(`${line}\n`);
    this.#reach(at);
    bytes.copy(this.#image, at * SLOT_SIZE, 0, SLOT_SIZE);
    this.#changed.add(at);
  }

  /** Leaves a slot without a note, from the next `flush` on. */
  clear(at: number): void {
    this.#reach(at);
    EMPTY.copy(this.#image, at * SLOT_SIZE);
    this.#changed.add(at);
  }

  /** Writes what has changed: slots that are near to one another together. */
  flush(): void {
    if (this.#changed.size === 0) return;
    const changed = [...this.#changed].sort((one, other) => one - other);
    this.#changed.clear();
    let [from, to] = [changed[0]!, changed[0]!];
    for (const at of changed) {
      if (at - to > GAP) {
        this.#write(from, to);
        from = at;
      }
      to = at;
    }
    this.#write(from, to);
  }

  /** Closes the file, with nothing in it where `isOver`. */
  close(isOver: boolean): void {
    if (!this.#isOpen || this.#file === undefined) return;
    if (!isOver) this.flush();
    this.#isOpen = false;
    try {
      if (isOver) ftruncateSync(this.#file);
    } catch {
      // What the slots say counts as if the process had crashed.
    }
    closeSync(this.#file);
  }

  #write(from: number, to: number): void {
    if (!this.#isOpen || this.#file === undefined) return;
    const start = from * SLOT_SIZE;
    // Of the last slot only its line.
    const newline = this.#image.indexOf("\n", to * SLOT_SIZE);
    const end = Math.min(newline < 0 ? this.#image.length : newline + 1, (to + 1) * SLOT_SIZE);
    try {
      writeSync(this.#file, this.#image, start, end - start, start);
    } catch {
      // No room, or no disk: the store says so, and a crash is not attributed.
    }
  }

  #reach(at: number): void {
    const needed = (at + 1) * SLOT_SIZE;
    if (this.#image.length >= needed) return;
    const image = Buffer.alloc(Math.max(needed, 2 * this.#image.length));
    this.#image.copy(image);
    this.#image = image;
  }
}

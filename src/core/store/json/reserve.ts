import { randomBytes } from "node:crypto";
import { isNoRoom, type StoreIo, writeFully } from "../../storage/file-io.ts";
import type { StoreLogger } from "../store.ts";

/** Space reserved on the disk, so that entities can still be removed when it is full. */
export class Reserve {
  readonly #io: StoreIo;
  readonly #folder: string;
  readonly #size: number;
  readonly #log: StoreLogger;
  #held = false;

  constructor(options: { io: StoreIo; folder: string; size: number; log: StoreLogger }) {
    this.#io = options.io;
    this.#folder = options.folder;
    this.#size = options.size;
    this.#log = options.log;
  }

  /**
   * Reserves the space; resolves with whether there was enough. After a failure there must be twice as much:
   * the space that the reserve itself released is not enough to continue.
   */
  async hold(options: { again: boolean }): Promise<boolean> {
    if (this.#held || this.#exists()) {
      this.#held = true;
      return true;
    }
    try {
      await this.#write(options.again ? this.#size * 2 : this.#size);
      this.#held = true;
      return true;
    } catch (error) {
      this.release();
      if (!isNoRoom(error)) throw error;
      return false;
    }
  }

  /** Releases the space. */
  release(): void {
    this.#held = false;
    try {
      if (this.#io.list(this.#folder).includes("reserve")) this.#io.remove(this.#path);
    } catch (error) {
      this.#log.warn("Store: the reserve could not be removed", { error: String(error) });
    }
  }

  get #path(): string {
    return `${this.#folder}/reserve`;
  }

  #exists(): boolean {
    if (!this.#io.list(this.#folder).includes("reserve")) return false;
    const file = this.#io.open(this.#path, "read");
    try {
      if (this.#io.size(file) === this.#size) return true;
    } finally {
      this.#io.close(file);
    }
    this.#io.remove(this.#path);
    return false;
  }

  /** Bytes that no file system can compress: a compressed or sparse reserve would reserve nothing. */
  async #write(size: number): Promise<void> {
    const file = this.#io.open(this.#path, "create");
    const block = randomBytes(Math.min(this.#size, 64 * 1024));
    try {
      for (let at = 0; at < size; at += block.length)
        writeFully(this.#io, file, block.subarray(0, size - at), at);
      this.#io.truncate(file, this.#size);
      await this.#io.sync(file);
    } finally {
      this.#io.close(file);
    }
  }
}

import { type FileIdentity, readFully, type StoreIo } from "../../storage/file-io.ts";

/** An open file that is closed only once all reads have finished. */
export class SharedFile {
  readonly handle: number;
  /** Its identity when it was opened. */
  readonly identity: FileIdentity;
  readonly #io: StoreIo;
  #readers = 0;
  #retired = false;
  /** Opened on first use; `null` if that is not possible. */
  #synced: number | null | undefined;

  constructor(io: StoreIo, handle: number) {
    this.#io = io;
    this.handle = handle;
    this.identity = io.identityOf(handle);
  }

  /** Reads until `into` is full or the file ends; returns the number of bytes read. */
  readSync(into: Uint8Array, position: number): number {
    return readFully(this.#io, this.handle, into, position);
  }

  /** Reads without blocking. */
  async read(into: Uint8Array, position: number): Promise<number> {
    this.#readers++;
    try {
      let length = 0;
      while (length < into.length) {
        const rest = length === 0 ? into : into.subarray(length);
        const count = await this.#io.read(this.handle, rest, position + length);
        if (count === 0) break;
        length += count;
      }
      return length;
    } finally {
      this.#readers--;
      this.#closeUnused();
    }
  }

  /**
   * A handle for writes that are on disk once they are done; `undefined` if there is none. `path` is the
   * file's.
   */
  syncedHandle(path: string): number | undefined {
    if (this.#synced === undefined) {
      try {
        this.#synced = this.#io.openSynced(path) ?? null;
      } catch {
        this.#synced = null;
      }
    }
    return this.#synced ?? undefined;
  }

  /** Keeps the file open until the returned function is called, even if nothing else needs it. */
  hold(): () => void {
    this.#readers++;
    return () => {
      this.#readers--;
      this.#closeUnused();
    };
  }

  /** Closes the file after the last pending read. */
  retire(): void {
    this.#retired = true;
    this.#closeUnused();
  }

  #closeUnused(): void {
    if (!this.#retired || this.#readers > 0) return;
    this.#retired = false;
    this.#io.close(this.handle);
    if (typeof this.#synced === "number") this.#io.close(this.#synced);
  }
}

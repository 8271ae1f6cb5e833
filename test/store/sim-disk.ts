import { basename, dirname } from "node:path";
import type { FileIdentity, StoreIo } from "../../src/core/storage/file-io.ts";
import { type Keyring, NO_KEYS } from "../../src/core/store/encryption/keyring.ts";
import type { SimRandom } from "./sim-random.ts";

const SECTOR = 512;

/** The one folder that the disk has. */
export const FOLDER = "/store";

/** The process has ended: none of its requests take effect. */
export class CrashError extends Error {
  override readonly name = "CrashError";
}

/** How likely each kind of failure is at a call that it can hit. */
export interface Faults {
  readonly write: number;
  readonly sync: number;
  readonly names: number;
  readonly open: number;
}

export const NO_FAULTS: Faults = { write: 0, sync: 0, names: 0, open: 0 };

/** What a program may get wrong, or a disk may pretend. */
export type Mutant =
  | "none"
  | "nosync"
  | "nosnapsync"
  | "nodirsync"
  | "swallow"
  | "retry"
  | "lying"
  /** A name refers to what this process last made it refer to, whatever others did since. */
  | "stale";

/** A file: what the disk holds, what the system shows, and what of it is still to be written. */
class Inode {
  static #count = 0;
  readonly number = ++Inode.#count;
  changes = 0;
  modified = 0;
  disk = Buffer.alloc(0);
  cache = Buffer.alloc(0);
  /** Sectors that differ from the disk and that the system still means to write. */
  readonly dirty = new Set<number>();
  sizeDirty = false;

  get identity(): FileIdentity {
    const { number: inode, changes: changed, modified } = this;
    return { device: 1, inode, size: this.cache.length, changed, modified };
  }

  write(bytes: Uint8Array, position: number): void {
    this.changes++;
    this.modified++;
    if (position + bytes.length > this.cache.length) this.resize(position + bytes.length);
    this.cache.set(bytes, position);
    for (let at = position; at < position + bytes.length; at += SECTOR - (at % SECTOR)) {
      this.dirty.add(Math.floor(at / SECTOR));
    }
  }

  resize(size: number): void {
    const next = Buffer.alloc(size);
    this.cache.copy(next);
    this.cache = next;
    this.changes++;
    this.modified++;
    this.sizeDirty = true;
    for (const sector of this.dirty) if (sector * SECTOR >= size) this.dirty.delete(sector);
  }

  /** Brings sectors to the disk for which `reaches` holds. */
  flush(reaches: () => boolean): void {
    const size = this.sizeDirty && reaches() ? this.cache.length : this.disk.length;
    const disk = Buffer.alloc(size);
    this.disk.copy(disk);
    for (const sector of this.dirty) {
      if (reaches())
        this.cache.copy(disk, sector * SECTOR, sector * SECTOR, Math.min((sector + 1) * SECTOR, size));
    }
    this.disk = disk;
    this.forget();
  }

  /** The system takes the pages for clean, whatever the disk holds. */
  forget(): void {
    this.dirty.clear();
    this.sizeDirty = false;
  }

  crash(reaches: () => boolean): void {
    this.flush(reaches);
    this.cache = Buffer.from(this.disk);
  }
}

/**
 * A disk that loses, on a power cut, any part of what was not synced: sectors of 512 bytes, sizes, names. It
 * fails on request, and stops at a given call. One folder is all it has.
 */
export class SimDisk {
  /** What the store on it is encrypted with. */
  keys: Keyring = NO_KEYS;
  readonly #random: SimRandom;
  #names = new Map<string, Inode>();
  #durableNames = new Map<string, Inode>();
  #pendingNames: ((names: Map<string, Inode>) => void)[] = [];
  #handles = new Map<number, { inode: Inode; name: string }>();
  #nextHandle = 1;
  #session = 0;
  #callsLeft = Number.POSITIVE_INFINITY;
  #crashed = false;
  #onCrash: () => void = () => {};
  #hasSynced: boolean | undefined;
  #folder = new Inode();
  #hidden = false;
  faults: Faults = NO_FAULTS;
  mutant: Mutant = "none";
  /** Bytes that the disk has room for. */
  room = Number.POSITIVE_INFINITY;

  constructor(random: SimRandom) {
    this.#random = random;
  }

  /** Tells, from now on, whether the process that runs now still does. */
  lifeline(): () => boolean {
    const session = this.#session;
    return () => session === this.#session && !this.#crashed;
  }

  /** The disk as one process sees it: nothing that it asks for happens once it has ended, even without a crash. */
  io(): StoreIo {
    const session = this.#session;
    const guarded = <A extends unknown[], R>(call: (...args: A) => R): ((...args: A) => R) => {
      return (...args) => {
        if (session !== this.#session) throw new CrashError("ended");
        return call.apply(this, args);
      };
    };
    const known = new Map<string, Inode>();
    return {
      identity: guarded((path) => {
        const real = this.identity(path);
        return this.mutant === "stale" ? (known.get(basename(path))?.identity ?? real) : real;
      }),
      identityOf: guarded(this.identityOf),
      fileSystem: () => ({ kind: "disk" }),
      makeFolder: guarded(() => this.makeFolder()),
      list: guarded(() => this.list()),
      open: guarded((path, mode) => {
        const file = this.open(path, mode);
        known.set(basename(path), this.#of(file).inode);
        return file;
      }),
      close: guarded(this.close),
      size: guarded(this.size),
      write: guarded(this.write),
      readSync: guarded(this.readSync),
      read: guarded(this.read),
      truncate: guarded(this.truncate),
      sync: guarded(this.sync),
      openSynced: guarded(this.openSynced),
      writeSynced: guarded(this.writeSynced),
      rename: guarded((from, to) => {
        this.rename(from, to);
        known.set(basename(to), this.#names.get(basename(to))!);
      }),
      remove: guarded(this.remove),
      discard: guarded((path, failed) => {
        try {
          this.remove(path);
        } catch (error) {
          failed(error);
        }
      }),
      syncFolder: guarded(this.syncFolder),
    };
  }

  /** Ends the process at the `calls`th call from now on. */
  crashAfter(calls: number, onCrash: () => void): void {
    this.#callsLeft = calls;
    this.#onCrash = onCrash;
  }

  get crashed(): boolean {
    return this.#crashed;
  }

  /** Starts again after the process has ended; with a power cut what was not synced may be lost. */
  restart(powerCut: boolean): void {
    this.#session++;
    this.#crashed = false;
    this.#callsLeft = Number.POSITIVE_INFINITY;
    this.#handles = new Map();
    if (!powerCut) return;
    const reaches = () => this.#random.chance(0.5);
    // A journaling file system loses the last changes of names; others may lose any.
    const inOrder = this.#random.chance(0.5);
    const kept = this.#random.below(this.#pendingNames.length + 1);
    for (const [at, change] of this.#pendingNames.entries()) {
      if (inOrder ? at < kept : reaches()) change(this.#durableNames);
    }
    this.#pendingNames = [];
    this.#names = new Map(this.#durableNames);
    for (const inode of new Set(this.#names.values())) inode.crash(reaches);
  }

  /** Turns one bit of a file over; returns where, or `undefined` where there is nothing to turn. */
  flipBit(): { file: string; byte: number } | undefined {
    const files = [...this.#names].filter(
      ([name, inode]) => /json|checkpoint/.test(name) && inode.cache.length > 0,
    );
    if (files.length === 0) return undefined;
    const [file, inode] = files[this.#random.below(files.length)]!;
    const byte = this.#random.below(inode.cache.length);
    inode.cache = Buffer.from(inode.cache);
    inode.cache[byte] = inode.cache[byte]! ^ (1 << this.#random.below(8));
    inode.disk = Buffer.from(inode.cache);
    return { file, byte };
  }

  /** A copy of all files, to go back to. */
  snapshot(): () => void {
    const files = [...this.#names].map(
      ([name, { cache, modified }]) => [name, Buffer.from(cache), modified] as const,
    );
    return () => {
      this.#session++;
      this.#names = new Map();
      for (const [name, bytes, modified] of files) {
        const inode = new Inode();
        inode.modified = modified;
        inode.cache = Buffer.from(bytes);
        inode.disk = Buffer.from(bytes);
        this.#names.set(name, inode);
      }
      this.#durableNames = new Map(this.#names);
      this.#pendingNames = [];
      this.#handles = new Map();
      this.#crashed = false;
      this.#callsLeft = Number.POSITIVE_INFINITY;
    };
  }

  /** Moves the folder away, or back; open files stay open. */
  hide(isHidden: boolean): void {
    this.#hidden = isHidden;
  }

  /** Removes the folder with all that is in it, and makes an empty one of its name. */
  replaceFolder(): void {
    this.#folder = new Inode();
    this.#names = new Map();
    this.#durableNames = new Map();
    this.#pendingNames = [];
  }

  /** Whether there is a file, without a call that could fail. */
  holds(name: string): boolean {
    return this.#names.has(name);
  }

  makeFolder(): void {
    this.#call();
  }

  identity(path: string): FileIdentity | undefined {
    this.#call();
    if (this.#hidden) return undefined;
    const inode = path === FOLDER ? this.#folder : this.#names.get(basename(path));
    return inode?.identity;
  }

  identityOf(file: number): FileIdentity {
    this.#call();
    return this.#of(file).inode.identity;
  }

  list(): string[] {
    this.#callByName();
    return [...this.#names.keys()];
  }

  open(path: string, mode: "read" | "create"): number {
    this.#callByName();
    this.#fail(this.faults.open, "EMFILE");
    const name = basename(path);
    let inode = this.#names.get(name);
    if (mode === "create") {
      if (inode !== undefined) throw systemError("EEXIST");
      const created = new Inode();
      inode = created;
      this.#change((names) => names.set(name, created));
    }
    if (inode === undefined) throw systemError("ENOENT");
    this.#handles.set(this.#nextHandle, { inode, name });
    return this.#nextHandle++;
  }

  close(file: number): void {
    if (this.#crashed) return;
    if (!this.#handles.delete(file)) throw systemError("EBADF");
  }

  size(file: number): number {
    this.#call();
    return this.#of(file).inode.cache.length;
  }

  write(file: number, bytes: Uint8Array, position: number): number {
    const { inode } = this.#of(file);
    const before = this.#crashed;
    try {
      this.#call();
    } catch (error) {
      // The end of the process may come in the middle of a write.
      if (!before) inode.write(bytes.subarray(0, this.#random.below(bytes.length + 1)), position);
      throw error;
    }
    const growth = Math.max(0, position + bytes.length - inode.cache.length);
    const excess = this.#used() + growth - this.room;
    if (excess > 0) {
      const fits = bytes.length - excess;
      if (fits <= 0) throw systemError("ENOSPC");
      inode.write(bytes.subarray(0, fits), position);
      return fits;
    }
    if (this.#random.chance(this.faults.write)) {
      const count = this.#random.below(bytes.length);
      inode.write(bytes.subarray(0, count), position);
      if (this.#random.chance(0.5) && count > 0) return count;
      throw systemError(this.#random.chance(0.5) ? "EIO" : "ENOSPC");
    }
    inode.write(bytes, position);
    return bytes.length;
  }

  readSync(file: number, into: Uint8Array, position: number): number {
    this.#call();
    const { cache } = this.#of(file).inode;
    const part = cache.subarray(position, position + into.length);
    into.set(part);
    return part.length;
  }

  async read(file: number, into: Uint8Array, position: number): Promise<number> {
    const count = this.readSync(file, into, position);
    await this.#wait();
    return count;
  }

  truncate(file: number, size: number): void {
    this.#call();
    this.#fail(this.faults.names, "EIO");
    this.#of(file).inode.resize(size);
  }

  async sync(file: number): Promise<void> {
    this.#call();
    const { inode, name } = this.#of(file);
    await this.#wait();
    if (this.mutant === "lying" || this.mutant === (name.startsWith("journal") ? "nosync" : "nosnapsync"))
      return;
    if (!this.#random.chance(this.faults.sync)) {
      inode.flush(() => true);
      return;
    }
    // After a failed sync the system believes that nothing is left to write: the next sync succeeds without doing so.
    const shown = inode.cache;
    inode.flush(() => this.#random.chance(0.5));
    inode.cache = shown;
    if (this.mutant === "swallow") return;
    if (this.mutant === "retry") return this.sync(file);
    throw systemError("EIO");
  }

  /** Half of the systems have no such writes. */
  openSynced(path: string): number | undefined {
    this.#hasSynced ??= this.#random.chance(0.5);
    return this.#hasSynced ? this.open(path, "read") : undefined;
  }

  async writeSynced(file: number, bytes: Uint8Array, position: number): Promise<number> {
    const count = this.write(file, bytes, position);
    await this.sync(file);
    return count;
  }

  rename(from: string, to: string): void {
    this.#callByName();
    this.#fail(this.faults.names, "EIO");
    const [source, target] = [basename(from), basename(to)];
    const inode = this.#names.get(source);
    if (inode === undefined) throw systemError("ENOENT");
    this.#change((names) => {
      inode.changes++;
      names.set(target, inode);
      names.delete(source);
    });
  }

  remove(path: string): void {
    this.#callByName();
    this.#fail(this.faults.names, "EIO");
    const name = basename(path);
    if (!this.#names.has(name)) throw systemError("ENOENT");
    this.#change((names) => names.delete(name));
  }

  async syncFolder(path: string): Promise<void> {
    this.#callByName();
    await this.#wait();
    if (dirname(path) === path) throw systemError("EINVAL");
    if (this.mutant === "nodirsync" || this.mutant === "lying") return;
    this.#fail(this.faults.sync, "EIO");
    for (const change of this.#pendingNames) change(this.#durableNames);
    this.#pendingNames = [];
  }

  #change(change: (names: Map<string, Inode>) => unknown): void {
    change(this.#names);
    this.#folder.changes++;
    this.#pendingNames.push(change);
  }

  #of(file: number): { inode: Inode; name: string } {
    const found = this.#handles.get(file);
    if (found === undefined) throw this.#crashed ? new CrashError("ended") : systemError("EBADF");
    return found;
  }

  #used(): number {
    let used = 0;
    for (const inode of this.#names.values()) used += inode.cache.length;
    return used;
  }

  #call(): void {
    if (this.#crashed) throw new CrashError("ended");
    if (--this.#callsLeft > 0) return;
    this.#crashed = true;
    this.#onCrash();
    throw new CrashError("ended");
  }

  /** A call that finds its file by name. */
  #callByName(): void {
    this.#call();
    if (this.#hidden) throw systemError("ENOENT");
  }

  #fail(probability: number, code: string): void {
    if (this.#random.chance(probability)) throw systemError(code);
  }

  /** Lets others continue first. Never ends if the process does in the meantime. */
  async #wait(): Promise<void> {
    const session = this.#session;
    for (let turns = this.#random.below(3); turns > 0; turns--)
      await new Promise((resolve) => setImmediate(resolve));
    if (this.#crashed || session !== this.#session) await new Promise(() => {});
  }
}

function systemError(code: string): Error {
  return Object.assign(new Error(`${code}: simulated`), { code });
}

/**
 * Files that can be appended to and synced: what a journal needs that is acknowledged line by line, and an optional
 * capability of drivers. Injected, so that crash tests can use a simulated disk. Fast or rare operations are synchronous; those that wait for the disk are not.
 */
export interface StoreIo {
  /** The current identity of a name; `undefined` if there is no such file or folder. */
  identity(path: string): FileIdentity | undefined;
  /** The identity of an open file. */
  identityOf(file: number): FileIdentity;
  /** What kind of file system a folder is on. */
  fileSystem(folder: string): FileSystem;
  /** Creates a folder and its parents. */
  makeFolder(path: string): void;
  list(folder: string): string[];
  /** `create` fails if the file exists, and allows reading and writing. */
  open(path: string, mode: "read" | "create"): number;
  close(file: number): void;
  size(file: number): number;
  /** May write fewer bytes than it was passed. */
  write(file: number, bytes: Uint8Array, position: number): number;
  readSync(file: number, into: Uint8Array, position: number): number;
  read(file: number, into: Uint8Array, position: number): Promise<number>;
  truncate(file: number, size: number): void;
  /**
   * Resolves once the content and size of the file are on disk. `isQuick` means that it should not take
   * longer than passing it to another thread and back: then it may block the thread.
   */
  sync(file: number, isQuick?: boolean): Promise<void>;
  /** Opens an existing file for `writeSynced`; `undefined` if the system has no such writes. */
  openSynced(path: string): number | undefined;
  /**
   * Resolves once the bytes, and the size of the file, are on disk. May write fewer bytes than it was passed.
   */
  writeSynced(file: number, bytes: Uint8Array, position: number): Promise<number>;
  rename(from: string, to: string): void;
  remove(path: string): void;
  /**
   * Removes a large file that is no longer needed, in the background; `failed` is called if that is not
   * possible.
   */
  discard(path: string, failed: (error: unknown) => void): void;
  /** Resolves once the names in the folder are on disk. */
  syncFolder(path: string): Promise<void>;
}

/** Distinguishes one file from another, and one version from the next. */
export interface FileIdentity {
  readonly device: number;
  readonly inode: number;
  readonly size: number;
  /** When its content or attributes last changed, in milliseconds. */
  readonly changed: number;
  /** When its content last changed, in milliseconds: unlike `changed`, a new name or owner leaves it as it is. */
  readonly modified: number;
}

/**
 * `disk`: `identity` is current. `network`: other hosts may write to it, and `identity` may be some seconds
 * old. `bucket`: files of an object store, which has no writes in place; `name` is that of the file system.
 */
export type FileSystem =
  | { readonly kind: "disk" | "network" }
  | { readonly kind: "bucket"; readonly name: string };

/** Whether two identities are of the same file, regardless of writes to it. */
export function isSameFile(a: FileIdentity, b: FileIdentity): boolean {
  return a.inode === b.inode && a.device === b.device;
}

/** Tells whether, besides, nothing of it was changed. */
export function isUnchanged(a: FileIdentity, b: FileIdentity): boolean {
  return a.changed === b.changed && a.size === b.size && isSameFile(a, b);
}

/** Reads until `into` is full or the file ends; returns the number of bytes read. */
export function readFully(io: StoreIo, file: number, into: Uint8Array, position: number): number {
  let length = 0;
  while (length < into.length) {
    const count = io.readSync(file, into.subarray(length), position + length);
    if (count === 0) break;
    length += count;
  }
  return length;
}

/** Writes all bytes. Throws if the file does not accept more. */
export function writeFully(io: StoreIo, file: number, bytes: Uint8Array, position: number): void {
  let length = 0;
  while (length < bytes.length) {
    const count = io.write(file, length === 0 ? bytes : bytes.subarray(length), position + length);
    if (count === 0) throw Object.assign(new Error("the file does not accept more bytes"), { code: "EIO" });
    length += count;
  }
}

/** The error code of a failed system call. */
export function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : undefined;
}

/** Whether a write failed because the disk is full. */
export function isNoRoom(error: unknown): boolean {
  const code = codeOf(error);
  return code === "ENOSPC" || code === "EDQUOT";
}

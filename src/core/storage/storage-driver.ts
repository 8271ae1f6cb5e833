import type { MaybePromise } from "../base/maybe-promise.ts";
import type { StoreIo } from "./file-io.ts";

/**
 * What keeps files: an unstorage driver, reduced to what is used here. Its own type would bring those of all drivers
 * along. Keys have parts of letters, digits, `.`, `_` and `-`, separated by `:`. What was written must be read from the
 * next call on, in this process and all others (strong consistency), and a write must be lasting when it resolves.
 */
export interface StorageDriver {
  readonly name?: string;
  hasItem(key: string, options: object): MaybePromise<boolean>;
  /** The text of an item, `null` if there is none. Needed by unstorage; not called here where `getItemRaw` exists. */
  getItem(key: string, options: object): MaybePromise<unknown>;
  /** The bytes of an item, `null` if there is none. */
  getItemRaw?(key: string, options: object): MaybePromise<unknown>;
  setItem?(key: string, value: string, options: object): MaybePromise<void>;
  setItemRaw?(key: string, value: Uint8Array, options: object): MaybePromise<void>;
  /** Resolves also if there is no such item. */
  removeItem?(key: string, options: object): MaybePromise<void>;
  /** All keys that begin with `base`, however many there are. */
  getKeys(base: string, options: object): MaybePromise<string[]>;
  /**
   * Not part of unstorage, and optional: writes an item only if there is none, atomically. Resolves with whether the
   * item has this value now because of this call; a repeated call with a value that nobody else writes may say `true` again.
   */
  createItemRaw?(key: string, value: Uint8Array): Promise<boolean>;
  /**
   * Not part of unstorage, and optional: items as files that can be appended to and synced. A store that has it keeps its
   * journal in these files, line by line.
   */
  readonly files?: AppendableFiles;
}

/** Where the items of a driver are files: the item `a:b` is the file `a/b` in the folder. */
export interface AppendableFiles {
  readonly folder: string;
  readonly io: StoreIo;
}

/** A driver of this package. */
export interface OwnStorageDriver extends StorageDriver {
  readonly name: string;
  hasItem(key: string): Promise<boolean>;
  getItem(key: string): Promise<string | null>;
  getItemRaw(key: string): Promise<Buffer | null>;
  setItem(key: string, value: string): Promise<void>;
  setItemRaw(key: string, value: Uint8Array): Promise<void>;
  removeItem(key: string): Promise<void>;
  getKeys(base: string): Promise<string[]>;
}

/** A driver that can also create an item only if there is none. */
export interface CreatingStorageDriver extends OwnStorageDriver {
  createItemRaw(key: string, value: Uint8Array): Promise<boolean>;
}

/** A driver whose items can also be appended to. */
export interface AppendingStorageDriver extends CreatingStorageDriver {
  readonly files: AppendableFiles;
}

/** Bytes that a driver has returned, whichever type it uses for them; `undefined` if there is no item. */
export function toBytes(value: unknown): Buffer | undefined {
  if (value === null || value === undefined) return undefined;
  if (typeof value === "string") return Buffer.from(value);
  if (value instanceof ArrayBuffer) return Buffer.from(value);
  if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  throw new TypeError("The storage driver returned something that is neither bytes nor text");
}

/** The path of a key, below a prefix. Refuses parts that a path or a URL would resolve. */
export function toPath(prefix: string, key: string): string {
  const parts = key.split(":");
  if (parts.some((part) => part === "" || part === "." || part === ".." || /[/\\\0]/.test(part)))
    throw new TypeError(`"${key}" is not a valid key of a storage`);
  return `${prefix}${parts.join("/")}`;
}

/** What the paths of all keys begin with that begin with `base`. */
export function toPathPrefix(prefix: string, base: string): string {
  return `${prefix}${base.replaceAll(":", "/")}`;
}

/** The opposite of `toPath`. */
export function toKey(prefix: string, path: string): string {
  return path.slice(prefix.length).replaceAll("/", ":");
}

/** A prefix as options name it, with or without slashes at its ends. */
export function toPrefix(text: string | undefined): string {
  const trimmed = (text ?? "").replace(/^\/+|\/+$/g, "");
  return trimmed === "" ? "" : `${trimmed}/`;
}

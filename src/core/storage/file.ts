import { randomUUID } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { link, mkdir, open, readdir, readFile, rename, rmdir, stat, unlink } from "node:fs/promises";
import { dirname, join, sep } from "node:path";
import { type NamesOf, refuseUnknown } from "../base/refuse-unknown.ts";
import { nodeIo } from "./node-io.ts";
import { type AppendingStorageDriver, toPath } from "./storage-driver.ts";
import { StorageFailure, type StorageFailureReason } from "./storage-failure.ts";

/** Files that are being written; one that a crash has left is never read, and is removed once it is older than a write takes. */
const TEMPORARY = /^\.[\da-f-]{36}\.tmp$/;
const LONGEST_WRITE = 24 * 3_600_000;

/** How often a folder is created that is gone again before there is a file in it. */
const MOST_TRIES = 100;

export interface FileOptions {
  /** Created where it is missing. */
  readonly folder: string;
}

const NAMES: NamesOf<FileOptions> = { folder: true };

/**
 * A driver for a folder of a disk, or of a network file system: each item is a file, which is complete and synced before a
 * write resolves, and which a store can append to. unstorage's own writes in place and without a sync: a crash leaves half a file, or none.
 *
 * @example
 * fileDriver({ folder: "/mnt/backups" })
 */
export function fileDriver(options: FileOptions): AppendingStorageDriver {
  refuseUnknown(options, NAMES, "fileDriver");
  const { folder } = options;
  const pathOf = (key: string) => join(folder, toPath("", key));
  const read = async (key: string) => {
    try {
      return await readFile(pathOf(key));
    } catch (error) {
      return ifMissing(error, folder, null);
    }
  };
  /** Writes a file under another name, and gives it its own by `publish`. */
  const write = async (
    key: string,
    value: Uint8Array,
    publish: (from: string, to: string) => Promise<void>,
  ) => {
    const path = pathOf(key);
    const temporary = join(dirname(path), `.${randomUUID()}.tmp`);
    try {
      const file = await create(temporary);
      try {
        await file.writeFile(value);
        await file.sync();
      } finally {
        await file.close();
      }
      await publish(temporary, path);
      await syncFolder(dirname(path));
    } catch (error) {
      await unlink(temporary).catch(() => {});
      throw failureOf(error, folder);
    }
  };
  const driver: AppendingStorageDriver = {
    name: "agent-control-file",
    files: { folder, io: nodeIo },
    async hasItem(key) {
      try {
        return (await stat(pathOf(key))).isFile();
      } catch (error) {
        return ifMissing(error, folder, false);
      }
    },
    getItem: async (key) => (await read(key))?.toString() ?? null,
    getItemRaw: read,
    setItem: (key, value) => write(key, Buffer.from(value), rename),
    setItemRaw: (key, value) => write(key, value, rename),
    async createItemRaw(key, value) {
      let created = true;
      await write(key, value, async (from, to) => {
        try {
          await link(from, to);
        } catch (error) {
          if (codeOf(error) !== "EEXIST") throw error;
          created = false;
        }
        await unlink(from);
      });
      return created;
    },
    async removeItem(key) {
      try {
        const path = pathOf(key);
        await unlink(path);
        await syncFolder(dirname(path));
        await removeEmpty(dirname(path), folder);
      } catch (error) {
        ifMissing(error, folder, undefined);
      }
    },
    async getKeys(base = "") {
      try {
        const keys: string[] = [];
        for await (const key of keysBelow(folder, { base, top: folder })) keys.push(key);
        return keys.sort();
      } catch (error) {
        throw failureOf(error, folder);
      }
    },
  };
  return driver;
}

interface Listed {
  /** How keys begin; what is in other folders is not read. */
  readonly base: string;
  readonly top: string;
  /** The key of the folder, with a colon at its end. */
  readonly at?: string;
}

/** The items in a folder. One that is removed meanwhile has none: the others are not less for that. */
async function* keysBelow(folder: string, { base, top, at = "" }: Listed): AsyncGenerator<string> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((error: unknown) => {
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  });
  for (const entry of entries) {
    const path = join(folder, entry.name);
    const key = at + entry.name;
    if (entry.isDirectory()) {
      const below = `${key}:`;
      if (below.startsWith(base) || base.startsWith(below)) yield* keysBelow(path, { base, top, at: below });
    } else if (entry.isFile() && TEMPORARY.test(entry.name)) await removeLeft(path, top);
    else if (entry.isFile() && key.startsWith(base)) yield key;
  }
}

/** Removes what a crash has left of a write, and the folder that it was made in. */
async function removeLeft(path: string, top: string): Promise<void> {
  try {
    if (Date.now() - (await stat(path)).mtimeMs < LONGEST_WRITE) return;
    await unlink(path);
    await removeEmpty(dirname(path), top);
  } catch {
    // Its write ended meanwhile, or it is removed by the next list.
  }
}

/** Creates a file, and its folder: another process may remove that while it is empty. */
async function create(path: string): Promise<FileHandle> {
  for (let tries = 1; ; tries++) {
    try {
      await makeFolder(dirname(path));
      return await open(path, "wx", 0o600);
    } catch (error) {
      if (codeOf(error) !== "ENOENT" || tries === MOST_TRIES) throw error;
    }
  }
}

/** Removes a folder that has no items any longer, and those above it, up to the one of the driver. */
async function removeEmpty(folder: string, top: string): Promise<void> {
  for (let at = folder; at.startsWith(join(top, sep)); at = dirname(at)) {
    try {
      await rmdir(at);
    } catch {
      // It has other items, or is gone.
      return;
    }
  }
}

/** Creates a folder and those above it, with names that outlast a crash. */
async function makeFolder(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let made = folder; ; made = dirname(made)) {
    await syncFolder(dirname(made));
    if (made === first || made === dirname(made)) return;
  }
}

async function syncFolder(folder: string): Promise<void> {
  // Windows cannot sync a folder.
  if (process.platform === "win32") return;
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function ifMissing<T>(error: unknown, folder: string, value: T): T {
  if (codeOf(error) === "ENOENT") return value;
  throw failureOf(error, folder);
}

const REASONS: Readonly<Record<string, StorageFailureReason>> = {
  ...{ ENOSPC: "full", EDQUOT: "full" },
  ...{ EACCES: "denied", EPERM: "denied", EROFS: "denied" },
  ...{ ENOTDIR: "gone", ESTALE: "gone" },
};

function failureOf(error: unknown, folder: string): Error {
  if (error instanceof StorageFailure || error instanceof TypeError) return error;
  const code = codeOf(error) ?? String(error);
  return new StorageFailure(`The folder ${folder} could not be used (${code})`, {
    reason: REASONS[code] ?? "unavailable",
    detail:
      REASONS[code] === "full" ? "Free space on its disk." : "Check the disk and the rights of the folder.",
    cause: error,
  });
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException | null)?.code;
}

import * as fs from "node:fs";
import { promisify } from "node:util";
import type { FileIdentity, StoreIo } from "./file-io.ts";
import { fileSystem } from "./file-system.ts";

const fdatasync = promisify(fs.fdatasync);
const fsync = promisify(fs.fsync);

/** The file system of this machine. */
export const nodeIo: StoreIo = {
  identity: (path) => {
    const stats = fs.statSync(path, { throwIfNoEntry: false });
    return stats === undefined ? undefined : toIdentity(stats);
  },
  identityOf: (file) => toIdentity(fs.fstatSync(file)),
  fileSystem,
  makeFolder: (path) => void fs.mkdirSync(path, { recursive: true, mode: 0o700 }),
  list: (folder) => fs.readdirSync(folder),
  open: (path, mode) => fs.openSync(path, mode === "read" ? "r" : "wx+", 0o600),
  close: (file) => fs.closeSync(file),
  size: (file) => fs.fstatSync(file).size,
  write: (file, bytes, position) => fs.writeSync(file, bytes, 0, bytes.length, position),
  readSync: (file, into, position) => fs.readSync(file, into, 0, into.length, position),
  read: (file, into, position) =>
    new Promise((resolve, reject) => {
      fs.read(file, into, 0, into.length, position, (error, count) =>
        error ? reject(error) : resolve(count),
      );
    }),
  truncate: (file, size) => fs.ftruncateSync(file, size),
  sync: async (file, isQuick) => {
    if (isQuick) fs.fdatasyncSync(file);
    else await fdatasync(file);
  },
  // Elsewhere such a write may stop short of the disk, or does not exist.
  openSynced: (path) =>
    process.platform === "linux"
      ? fs.openSync(path, fs.constants.O_WRONLY | fs.constants.O_DSYNC)
      : undefined,
  writeSynced: (file, bytes, position) =>
    new Promise((resolve, reject) => {
      fs.write(file, bytes, 0, bytes.length, position, (error, count) =>
        error ? reject(error) : resolve(count),
      );
    }),
  rename: (from, to) => fs.renameSync(from, to),
  remove: (path) => fs.unlinkSync(path),
  discard: (path, failed) => {
    fs.unlink(path, (error) => {
      if (error !== null) failed(error);
    });
  },
  syncFolder: async (path) => {
    // Windows has no way to sync a folder: NTFS journals its names by itself.
    if (process.platform === "win32") return;
    const folder = fs.openSync(path, "r");
    try {
      await fsync(folder);
    } finally {
      fs.closeSync(folder);
    }
  },
};

function toIdentity(stats: fs.Stats): FileIdentity {
  const { dev: device, ino: inode, size, ctimeMs: changed, mtimeMs: modified } = stats;
  return { device, inode, size, changed, modified };
}

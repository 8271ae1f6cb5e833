import {
  closeSync,
  createReadStream,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { FileSet } from "./json/file-set.ts";
import { lockFolder } from "./json/folder-lock.ts";
import { HEADROOM } from "./json/headroom.ts";
import { importFiles } from "./json/import-files.ts";
import { fillFolder, refuseIncomplete } from "./json/incomplete.ts";
import type { JsonBackend } from "./json/json-backend.ts";
import { openBackend } from "./json/json-backend.ts";
import { readManifest } from "./json/manifest.ts";
import { nodeIo } from "./json/node-io.ts";
import type { Repaired } from "./json/repair.ts";
import { repairFiles } from "./json/repair.ts";
import { takeSnapshot } from "./json/take-snapshot.ts";
import { nodeTimers } from "./json/timers.ts";
import type { Problem } from "./json/verify.ts";
import { verifyFiles } from "./json/verify.ts";
import { writeBackup } from "./json/write-backup.ts";
import type { StoreSnapshot } from "./snapshot.ts";
import { sendSnapshot } from "./snapshot.ts";
import { storageError } from "./storage-error.ts";
import type { StoreLogger } from "./store.ts";

export { FolderInUseError } from "./json/folder-lock.ts";
export type { Affected, Repaired } from "./json/repair.ts";
export { DAMAGED, describeAffected } from "./json/repair.ts";
export type { Problem } from "./json/verify.ts";

/** Files that an export writes. */
const EXPORTED = /^[A-Za-z][A-Za-z0-9_-]*\.json$/;

/** The content of a copy of a store. */
export interface Copied {
  readonly files: number;
  readonly bytes: number;
  readonly lines: number;
}

const SILENT: StoreLogger = { info() {}, warn() {}, error() {} };

/** A table or log in an export. */
export interface Exported {
  readonly file: string;
  readonly count: number;
}

/**
 * Writes the content of a store as plain JSON: for each table a file with the list of its entities, for each
 * log a file with the entries of each key. The store must not be in use.
 */
export async function exportStore(dataDir: string, to: string): Promise<Exported[]> {
  const backend = await openStored(dataDir);
  try {
    mkdirSync(to, { recursive: true });
    const exported: Exported[] = [];
    for (const table of backend.tableNames()) {
      exported.push(await writeList(join(to, `${table}.json`), ["[", "]"], backend.entities(table)));
    }
    for (const log of backend.logNames()) {
      exported.push(await writeList(join(to, `${log}.json`), ["{", "}"], backend.keys(log)));
    }
    return exported;
  } finally {
    await backend.close();
  }
}

/** Reads every line of every file of a store and reports damage. The store must not be in use. */
export async function verifyStore(
  dataDir: string,
): Promise<{ lines: number; files: number; problems: Problem[] }> {
  const lock = await lockFolder(dataDir, SILENT);
  try {
    return await verifyFiles(nodeIo, dataDir);
  } finally {
    await lock.release();
  }
}

/**
 * Keeps the intact part of a damaged store, in whole transactions. Damaged files move to `damaged/`; the next
 * start holds jobs that lost something. The store must not be in use.
 */
export async function repairStore(dataDir: string): Promise<Repaired> {
  const lock = await lockFolder(dataDir, SILENT);
  try {
    return await repairFiles(nodeIo, dataDir, () => new Date());
  } finally {
    await lock.release();
  }
}

/** Copies a store that is not in use into an empty folder, and checks the copy. */
export async function backupStore(dataDir: string, to: string): Promise<Copied> {
  const backend = await openStored(dataDir);
  try {
    return await writeBackup(nodeIo, to, sendSnapshot(await backend.snapshot()));
  } finally {
    await backend.close();
  }
}

/** Writes what a running service sends as its backup into an empty folder, and checks it there. */
export function saveBackup(sent: AsyncIterable<Uint8Array>, to: string): Promise<Copied> {
  return writeBackup(nodeIo, to, sent);
}

/** Copies a backup into an empty data folder, and checks the copy. The backup does not change. */
export async function restoreStore(from: string, dataDir: string): Promise<Copied> {
  return writeBackup(nodeIo, dataDir, sendSnapshot(snapshotOfFolder(from)));
}

/** Creates a store in an empty folder from what `exportStore` wrote. */
export async function importStore(from: string, dataDir: string): Promise<{ name: string; count: number }[]> {
  if (!existsSync(from)) throw storageError(`Folder ${from} does not exist`, "Use the folder of an export.");
  const exported = readdirSync(from)
    .filter((file) => EXPORTED.test(file))
    .map((file) => {
      const path = join(from, file);
      return { name: file.slice(0, -".json".length), file: path, read: () => createReadStream(path) };
    });
  if (exported.length === 0)
    throw storageError(`${from} does not contain an export`, "Use a folder that `svc store export` wrote.");
  return fillFolder(nodeIo, dataDir, () => importFiles(nodeIo, dataDir, exported));
}

/** Opens a store without knowing its tables; nobody else may have it open. */
function openStored(dataDir: string): Promise<JsonBackend> {
  return openBackend(new Map(), {
    folder: dataDir,
    log: SILENT,
    io: nodeIo,
    timers: nodeTimers,
    journalBytes: 16 * 1024 * 1024,
    reserveBytes: 1024 * 1024,
    headroom: HEADROOM,
    lock: true,
  });
}

/** The files of a backup, which are not written to. */
function snapshotOfFolder(folder: string): StoreSnapshot {
  if (!existsSync(folder))
    throw storageError(`Folder ${folder} does not exist`, "Use the folder of a backup.");
  refuseIncomplete(nodeIo, folder);
  const manifest = readManifest(nodeIo, folder);
  if (manifest === undefined)
    throw storageError(`${folder} does not contain a backup`, "Use a folder that `svc store backup` wrote.");
  const fileSet = new FileSet({ io: nodeIo, folder, log: SILENT, segments: new Map() });
  for (const { name, size } of manifest.files) fileSet.open(name, size);
  const snapshot = takeSnapshot(fileSet.order);
  fileSet.close();
  return snapshot;
}

async function writeList(
  path: string,
  [open, close]: readonly [string, string],
  items: AsyncIterable<string>,
): Promise<Exported> {
  const file = openSync(path, "w", 0o600);
  let count = 0;
  try {
    writeSync(file, open);
    for await (const item of items) writeSync(file, `${count++ === 0 ? "" : ","}\n${item}`);
    writeSync(file, `\n${close}\n`);
  } finally {
    closeSync(file);
  }
  return { file: path, count };
}

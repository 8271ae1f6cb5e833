import {
  closeSync,
  createReadStream,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  writeSync,
} from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileDriver } from "../storage/file.ts";
import { nodeIo } from "../storage/node-io.ts";
import { openStorage, type UnstorageStorage } from "../storage/open-storage.ts";
import { type Content, type ContentPart, counted, type PartSum, sumsOf } from "./content.ts";
import { type Keyring, NO_KEYS } from "./encryption/keyring.ts";
import { renamedContent } from "./encryption/renamed-contents.ts";
import { openedContent, sealedContent, withMark } from "./encryption/sealed-content.ts";
import { sealedContents } from "./encryption/sealed-place.ts";
import { type SendBackup, type StoreSnapshot, sendSnapshot } from "./engine/snapshot.ts";
import { bytesOf, contentsIn as filesIn, verifyContents, writeContentBytes } from "./files/copy-contents.ts";
import { FILES_ROOT } from "./files/file-chunks.ts";
import { FileSet } from "./json/file-set.ts";
import { readContent, writeContent } from "./json/folder-content.ts";
import { type FolderLock, lockFolder } from "./json/folder-lock.ts";
import { HEADROOM } from "./json/headroom.ts";
import { contentOfFiles } from "./json/import-files.ts";
import { fillFolder, refuseIncomplete } from "./json/incomplete.ts";
import { type JsonBackend, openBackend } from "./json/json-backend.ts";
import { readManifest } from "./json/manifest.ts";
import type { Problem } from "./json/problem.ts";
import { type Repaired, repairFiles } from "./json/repair.ts";
import { takeSnapshot } from "./json/take-snapshot.ts";
import { nodeTimers } from "./json/timers.ts";
import { verifyFiles } from "./json/verify.ts";
import { writeBackup } from "./json/write-backup.ts";
import { storageError } from "./storage-error.ts";
import type { StoreLogger } from "./store.ts";

export { FolderInUseError } from "./json/folder-lock.ts";
export type { Problem } from "./json/problem.ts";
export type { Affected, Repaired } from "./json/repair.ts";
export { DAMAGED, describeAffected } from "./json/repair.ts";

/** Folder of an export with the contents of files, each named by its SHA-256. */
const FILES = "files";
/** Files that an export writes. */
const EXPORTED = /^[A-Za-z][A-Za-z0-9_-]*\.json$/;

/** The content of a copy of a store. */
export interface Copied {
  readonly files: number;
  readonly bytes: number;
  readonly lines: number;
  /** Encrypted files whose content could not be checked, as no key was given. */
  readonly unchecked: number;
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
export async function exportStore(dataDir: string, to: string, keys: Keyring = NO_KEYS): Promise<Exported[]> {
  const lock = await lockStored(dataDir);
  try {
    return await readContent(nodeIo, dataDir, (content) =>
      exportContent(openedContent(content, keys), to, contentsIn(dataDir, keys)),
    );
  } finally {
    await lock.release();
  }
}

/** Exports the content of any store. */
export async function exportContent(
  content: Content,
  to: string,
  contents: UnstorageStorage,
): Promise<Exported[]> {
  mkdirSync(to, { recursive: true });
  const exported: Exported[] = [];
  for await (const one of filesIn(content)) {
    mkdirSync(join(to, FILES), { recursive: true });
    await writeFile(join(to, FILES, one.id), bytesOf(contents, one), { mode: 0o600 });
  }
  for (const part of content.parts) {
    const path = join(to, `${part.name}.json`);
    exported.push(
      part.isLog ? await writeList(path, "{}", keysOf(part)) : await writeList(path, "[]", entitiesOf(part)),
    );
  }
  return exported;
}

/** Reads every line of every file of a store and reports damage. The store must not be in use. */
export async function verifyStore(
  dataDir: string,
  keys: Keyring = NO_KEYS,
): Promise<{ lines: number; files: number; problems: Problem[] }> {
  const lock = await lockFolder(dataDir, SILENT);
  try {
    const verified = await verifyFiles(nodeIo, dataDir);
    // Lines that are damaged name nothing.
    if (verified.problems.length > 0) return verified;
    const broken = await readContent(nodeIo, dataDir, async (content) => {
      const opened = openedContent(content, keys);
      // Each row is what was encrypted there.
      if (!keys.isEmpty) await sumsOf(opened);
      return verifyContents(opened, contentsIn(dataDir, keys));
    });
    const problems = broken.map(({ sha256, place, what }) => ({
      ...{ file: `${FILES_ROOT}/${place}`, byte: 0 },
      what: `the file with the SHA-256 ${sha256}: ${what}`,
    }));
    return { ...verified, problems };
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
export function backupStore(dataDir: string, to: string, keys?: Keyring): Promise<Copied> {
  return sendStored(dataDir, (send) => saveBackup(send(), to, keys));
}

/** Passes on what a backup sends of a store that is not in use. */
export async function sendStored<T>(dataDir: string, receive: (send: SendBackup) => Promise<T>): Promise<T> {
  const backend = await openStored(dataDir);
  try {
    return await receive(async function* (has) {
      yield* sendSnapshot(await backend.snapshot(), contentsIn(dataDir), has);
    });
  } finally {
    await backend.close();
  }
}

/** Writes what a running service sends as its backup into an empty folder, and checks it there. */
export function saveBackup(
  sent: AsyncIterable<Uint8Array>,
  to: string,
  keys: Keyring = NO_KEYS,
): Promise<Copied> {
  return writeBackup(nodeIo, to, sent, keys);
}

/** Copies a backup into an empty data folder, and checks the copy. The backup does not change. */
export async function restoreStore(from: string, dataDir: string, keys: Keyring = NO_KEYS): Promise<Copied> {
  return writeBackup(nodeIo, dataDir, sendSnapshot(snapshotOfFolder(from), contentsIn(from)), keys);
}

/** Reads a backup, or the data of a service that is not running, without changing it. */
export function readBackup<T>(from: string, work: (content: Content) => Promise<T>): Promise<T> {
  if (!existsSync(from)) throw storageError(`Folder ${from} does not exist`, "Use the folder of a backup.");
  return readContent(nodeIo, from, work);
}

/** Creates a store in an empty folder from what `exportStore` wrote. */
export async function importStore(
  from: string,
  dataDir: string,
  keys: Keyring = NO_KEYS,
): Promise<PartSum[]> {
  const exported = renamedContent(await readExport(from), keys);
  return fillFolder(nodeIo, dataDir, async () => {
    const { content, sums } = counted(exported);
    await importFiles(exported, from, contentsIn(dataDir, keys));
    await writeContent(
      nodeIo,
      dataDir,
      keys.isEmpty ? content : sealedContent(withMark(content, keys), keys),
    );
    return sums;
  });
}

/** Writes the contents of files that an export has beside its tables. */
export async function importFiles(
  exported: Content,
  from: string,
  contents: UnstorageStorage,
): Promise<void> {
  for await (const one of filesIn(exported)) {
    const path = join(from, FILES, one.id);
    if (!existsSync(path))
      throw storageError(`${path} is missing, and FileContent.json names it`, "Use the whole export.");
    await writeContentBytes(contents, one, await readFile(path));
  }
}

/** What the files of an export have. */
export function readExport(from: string): Promise<Content> {
  if (!existsSync(from)) throw storageError(`Folder ${from} does not exist`, "Use the folder of an export.");
  const exported = readdirSync(from)
    .filter((file) => EXPORTED.test(file))
    .map((file) => {
      const path = join(from, file);
      return { name: file.slice(0, -".json".length), file: path, read: () => createReadStream(path) };
    });
  if (exported.length === 0)
    throw storageError(`${from} does not contain an export`, "Use a folder that `svc store export` wrote.");
  return contentOfFiles(exported);
}

/** Where a folder has the contents of files, as they are stored; decrypted with keys. */
function contentsIn(folder: string, keys?: Keyring): UnstorageStorage {
  const stored = openStorage(fileDriver({ folder }));
  return keys === undefined ? stored : sealedContents(stored, keys);
}

/** Locks a folder that may not exist yet. */
function lockStored(dataDir: string): Promise<FolderLock> {
  nodeIo.makeFolder(dataDir);
  return lockFolder(dataDir, SILENT);
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
  brackets: "[]" | "{}",
  items: AsyncIterable<string>,
): Promise<Exported> {
  const file = openSync(path, "w", 0o600);
  let count = 0;
  try {
    writeSync(file, brackets[0]!);
    for await (const item of items) writeSync(file, `${count++ === 0 ? "" : ","}\n${item}`);
    writeSync(file, `\n${brackets[1]!}\n`);
  } finally {
    closeSync(file);
  }
  return { file: path, count };
}

/** Entities as indented JSON. */
async function* entitiesOf(table: ContentPart): AsyncGenerator<string, void> {
  for await (const batch of table.rows()) for (const { body } of batch) yield indented(body);
}

/** The keys of a log with their entries, as indented JSON. */
async function* keysOf(log: ContentPart): AsyncGenerator<string, void> {
  let id: string | undefined;
  let entries: unknown[] = [];
  const key = () => `${JSON.stringify(id)}: ${JSON.stringify(entries, null, 2)}`;
  for await (const batch of log.rows()) {
    for (const row of batch) {
      if (row.id !== id) {
        if (id !== undefined) yield key();
        id = row.id;
        entries = [];
      }
      entries.push(JSON.parse(row.body));
    }
  }
  if (id !== undefined) yield key();
}

function indented(body: string): string {
  return JSON.stringify(JSON.parse(body), null, 2);
}

import { hostname } from "node:os";
import type { MaybePromise } from "../../base/maybe-promise.ts";
import type { FileSystem, StoreIo } from "../../storage/file-io.ts";
import type { Backend, Change, EntryRange, StoreLog, StoreTable } from "../engine/backend.ts";
import { Body } from "../engine/body.ts";
import type { StoreSnapshot } from "../engine/snapshot.ts";
import { storageError } from "../storage-error.ts";
import type { IndexValue, StoreHealth, StoreLogger } from "../store.ts";
import { readBodies, readBodySync } from "./bodies.ts";
import { CHECKPOINT_BYTES, Checkpointer } from "./checkpointer.ts";
import { Compactor } from "./compactor.ts";
import { Contents } from "./contents.ts";
import { FileSet } from "./file-set.ts";
import { type FolderLock, lockFolder } from "./folder-lock.ts";
import type { HeadroomOptions } from "./headroom.ts";
import { refuseIncomplete } from "./incomplete.ts";
import { Journal } from "./journal.ts";
import { describeError } from "./journal-health.ts";
import { loadFiles, openNamed } from "./load.ts";
import type { Owner } from "./manifest.ts";
import type { Remote } from "./remote.ts";
import { Reserve } from "./reserve.ts";
import { type PinnedFile, pinFiles, takeSnapshot } from "./take-snapshot.ts";
import type { Timers } from "./timers.ts";
import { keepTornTail } from "./torn-tail.ts";

export interface BackendOptions {
  readonly folder: string;
  readonly log: StoreLogger;
  readonly io: StoreIo;
  readonly timers: Timers;
  readonly journalBytes: number;
  readonly reserveBytes: number;
  readonly headroom: HeadroomOptions;
  readonly lock: boolean;
  /** Bytes of complete files that are not in a checkpoint, after which one is written. @default 32 MiB */
  readonly checkpointBytes?: number | undefined;
  /** Where each group of commits is stored besides. */
  readonly remote?: Remote | undefined;
}

/** Opens the files in a folder: locks it, reads them into the index, and prepares them for writes. */
export async function openBackend(
  tables: ReadonlyMap<string, StoreTable>,
  options: BackendOptions,
): Promise<JsonBackend> {
  const { io, folder } = options;
  io.makeFolder(folder);
  refuseBucket(folder, io.fileSystem(folder));
  refuseIncomplete(io, folder);
  const lock = options.lock ? await lockFolder(folder, options.log) : undefined;
  try {
    return await openFiles(tables, options, lock);
  } catch (error) {
    await lock?.release();
    throw error;
  }
}

/** An object store replaces whole files: it can neither store a line when it is written nor confirm that. */
function refuseBucket(folder: string, system: FileSystem): void {
  if (system.kind !== "bucket") return;
  throw storageError(
    `${folder} is on ${system.name}, which is an object store and cannot store a journal`,
    "Put the data folder on a disk, or on a network file system such as NFS (option dataDir, variable SERVICE_DATA_DIR).",
  );
}

async function openFiles(
  tables: ReadonlyMap<string, StoreTable>,
  options: BackendOptions,
  lock: FolderLock | undefined,
): Promise<JsonBackend> {
  const { io, folder, log } = options;
  const contents = new Contents(tables);
  const files = new FileSet({ io, folder, log, segments: contents.segments });
  const reserve = new Reserve({ io, folder, size: options.reserveBytes, log });
  const manifest = await files.take(() => reserve.release());
  tellOwner(manifest?.owner, log);
  const unsealed = openNamed(files, manifest);
  const named = manifest?.checkpoint && { named: manifest.checkpoint, log };
  const { last, torn, covered } = await loadFiles(files, contents, unsealed, named).catch(
    (error: unknown) => {
      files.close();
      throw error;
    },
  );
  if (torn !== undefined) {
    const where = { file: torn.file, byte: torn.byte, line: torn.line, bytes: torn.bytes.length };
    log.warn("Store: a crash cut the last write short; it was never acknowledged and is moved aside", where);
    keepTornTail(io, folder, torn);
  }
  files.active = unsealed;
  // In a new folder another process may be creating the first files at this moment.
  if (manifest !== undefined) files.sweep();

  let compactor: Compactor | undefined;
  let checkpointer: Checkpointer | undefined;
  const journal = new Journal({
    files,
    contents,
    reserve,
    timers: options.timers,
    log,
    last,
    limit: options.journalBytes,
    headroom: options.headroom,
    onCheck: () => {
      compactor?.check();
      checkpointer?.check();
    },
    remote: options.remote,
  });
  const writer = new Checkpointer({
    ...{ files, contents, journal, timers: options.timers, log, covered },
    bytes: options.checkpointBytes ?? CHECKPOINT_BYTES,
    isCompacting: () => compactor?.isRunning === true,
  });
  compactor = new Compactor({
    files,
    contents,
    journal,
    log,
    limit: options.journalBytes,
    checkpointer: writer,
  });
  checkpointer = writer;
  await makeWritable({ files, journal, reserve });
  writer.check();
  const { remote } = options;
  return new JsonBackend({ files, contents, journal, compactor, checkpointer, lock, remote });
}

/** An owner on this host is dead, or the lock would be taken. */
function tellOwner(owner: Owner | undefined, log: StoreLogger): void {
  if (owner === undefined || owner.host === hostname()) return;
  const { pid, host } = owner;
  log.warn(
    "Store: the folder was last open on another host; if that process is still running, it can no longer write",
    {
      pid,
      host,
    },
  );
}

async function makeWritable({
  files,
  journal,
  reserve,
}: {
  files: FileSet;
  journal: Journal;
  reserve: Reserve;
}): Promise<void> {
  if (files.active !== undefined || !files.claim.isHeld) {
    const detail =
      "The journal has not been rewritten yet after an unclean stop; the service retries automatically.";
    await journal.distrust(storageError("The store is read-only at the moment", detail));
    return;
  }
  const hasRoom = await reserve.hold({ again: false }).catch(() => true);
  if (!hasRoom) journal.noteFull();
}

interface JsonBackendParts {
  readonly files: FileSet;
  readonly contents: Contents;
  readonly journal: Journal;
  readonly compactor: Compactor;
  readonly checkpointer: Checkpointer;
  readonly lock: FolderLock | undefined;
  readonly remote: Remote | undefined;
}

/** Entities and entries in files of JSON lines. */
export class JsonBackend implements Backend {
  readonly database = "json";
  readonly #parts: JsonBackendParts;

  constructor(parts: JsonBackendParts) {
    this.#parts = parts;
  }

  body(table: StoreTable, slot: number): Body {
    const cached = this.#parts.contents.cachedBody(table, slot);
    if (cached !== undefined) return cached;
    return Body.from(
      readBodySync(this.#parts.contents.segments, this.#parts.contents.locatorOf(table, slot)),
    );
  }

  bodyOf(table: StoreTable, slot: number): MaybePromise<Body> {
    return this.#parts.contents.cachedBody(table, slot) ?? this.#readBody(table, slot);
  }

  async bodies(table: StoreTable, slots: readonly number[]): Promise<Body[]> {
    const bodies = slots.map((slot) => this.#parts.contents.cachedBody(table, slot));
    const missing = slots.flatMap((_, place) => (bodies[place] === undefined ? [place] : []));
    if (missing.length === 0) return bodies as Body[];
    const locators = missing.map((place) => this.#parts.contents.locatorOf(table, slots[place]!));
    const read = await readBodies(this.#parts.contents.segments, locators, Body.from);
    for (const [at, place] of missing.entries()) bodies[place] = read[at]!;
    return bodies as Body[];
  }

  lastOf(log: StoreLog, key: string): number {
    return this.#parts.contents.entriesOf(log, key)?.count ?? 0;
  }

  async entries<T>(
    log: StoreLog,
    key: string,
    { from, to }: EntryRange,
    read: (text: string) => T,
  ): Promise<T[]> {
    const entries = this.#parts.contents.entriesOf(log, key);
    if (entries === undefined) return [];
    const locators = Array.from({ length: to - from + 1 }, (_, at) => entries.get(from + at));
    return readBodies(this.#parts.contents.segments, locators, read);
  }

  commit(changes: readonly Change[], done: (error?: Error) => void): void {
    this.#parts.journal.commit(changes, done);
  }

  /** Between two groups of commits, so that only whole transactions are in it. */
  snapshot(): Promise<StoreSnapshot> {
    return this.#parts.journal.exclusive(async () => takeSnapshot(this.#parts.files.order));
  }

  /** The files between two groups of commits, and what `note` returns at that moment. */
  pin<T>(note: () => T): Promise<{ files: PinnedFile[]; noted: T }> {
    return this.#parts.journal.exclusive(async () => ({
      files: pinFiles(this.#parts.files.order),
      noted: note(),
    }));
  }

  /** Number of the last write that is on disk. */
  get last(): number {
    return this.#parts.journal.last;
  }

  refusal(): Error | undefined {
    return this.#parts.remote?.refusal();
  }

  health(): StoreHealth {
    const refusal = this.refusal();
    const health = refusal === undefined ? this.#parts.journal.health() : describeError(refusal);
    const shipping = this.#parts.remote?.shipping?.();
    return shipping === undefined ? health : { ...health, shipping };
  }

  bytes(): number {
    return this.#parts.files.bytes;
  }

  details(): Readonly<Record<string, IndexValue>> {
    return {
      files: this.#parts.files.order.length,
      compactions: this.#parts.compactor.count,
      checkpoints: this.#parts.checkpointer.count,
      covered_files: this.#parts.checkpointer.coveredAtStart,
      last_write: this.#parts.journal.last,
      ...this.#parts.remote?.details(),
    };
  }

  /** Rewrites everything into one set of files for each table. */
  compact(): Promise<void> {
    return this.#parts.compactor.compact();
  }

  async close(): Promise<void> {
    await this.#parts.compactor.close();
    await this.#parts.checkpointer.close();
    await this.#parts.remote?.finish?.();
    await this.#parts.journal.close();
    this.#parts.files.close();
    await this.#parts.lock?.release();
  }

  async #readBody(table: StoreTable, slot: number): Promise<Body> {
    const at = this.#parts.contents.locatorOf(table, slot);
    const [body] = await readBodies(this.#parts.contents.segments, [at], Body.from);
    this.#parts.contents.keepBody(table, slot, { body: body!, at });
    return body!;
  }
}

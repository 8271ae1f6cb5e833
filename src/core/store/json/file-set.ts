import {
  codeOf,
  type FileIdentity,
  isSameFile,
  isUnchanged,
  readFully,
  type StoreIo,
  writeFully,
} from "../../storage/file-io.ts";
import type { Mark } from "../closed.ts";
import type { StoreLogger } from "../store.ts";
import type { CheckpointName } from "./checkpoint-file.ts";
import { Claim } from "./claim.ts";
import { damageError } from "./damage-error.ts";
import { folderGoneError } from "./disk-errors.ts";
import { sizeWithoutZeros } from "./headroom.ts";
import { fileHeader } from "./line.ts";
import type { Manifest } from "./manifest.ts";
import { Removals } from "./removals.ts";
import type { Segment } from "./segment.ts";
import { SharedFile } from "./shared-file.ts";

/** Names of files of lines: the table, log or `journal`, and a number that is never used twice. */
const LINES_FILE = /^([A-Za-z][A-Za-z0-9_-]*)\.(\d+)\.jsonl$/;

/** Names of checkpoints, with numbers that are never used twice either. Earlier versions ignore such files. */
const CHECKPOINT_FILE = /^checkpoint\.(\d+)\.bin$/;

/** Files that the owner may create before it writes another manifest. */
const NUMBERS = 1000;

/** The start of every file of lines. */
const HEAD = Buffer.from('{"format":1,"kind":');

/** The files that make up the store, and the one among them that is written to. */
export class FileSet {
  readonly io: StoreIo;
  readonly folder: string;
  readonly #log: StoreLogger;
  readonly #segments: Map<number, Segment>;
  #order: Segment[] = [];
  #nextId = 1;
  #nextNumber = 1;
  /** The journal that is written to; none before the first write. */
  active: Segment | undefined;
  /** The checkpoint that the next manifest names. */
  checkpoint: CheckpointName | undefined;
  /** Size of the journal when it was opened. */
  #openedSize = 0;
  /** The right to write to the folder. */
  readonly claim: Claim;
  /** The folder at the last full check: while it is in its place and no name in it has changed, the files are the same. */
  #confirmed: FileIdentity | undefined;

  constructor(options: { io: StoreIo; folder: string; log: StoreLogger; segments: Map<number, Segment> }) {
    this.io = options.io;
    this.folder = options.folder;
    this.#log = options.log;
    this.#segments = options.segments;
    this.claim = new Claim(this.io, this.folder);
    for (const name of this.io.list(this.folder)) {
      const number = Number(LINES_FILE.exec(name)?.[2] ?? CHECKPOINT_FILE.exec(name)?.[1] ?? 0);
      this.#nextNumber = Math.max(this.#nextNumber, number + 1);
    }
  }

  /**
   * Takes over the folder from its owner. Resolves with the previous manifest, `undefined` if there is none.
   */
  async take(makeRoom: () => void): Promise<Manifest | undefined> {
    const manifest = await this.claim.take(makeRoom);
    // The previous owner may still be creating or removing files: none has the name of one of this process.
    this.#nextNumber = Math.max(this.#nextNumber, manifest?.next ?? 0);
    return manifest;
  }

  /** Takes a folder that was full when it was opened, if nobody has written to it since. */
  async takeAgain(): Promise<void> {
    if (this.claim.isHeld) return;
    await this.claim.takeAgain();
    if (this.active === undefined || sizeWithoutZeros(this.io, this.active.file.handle) === this.#openedSize)
      return;
    throw this.claim.lose();
  }

  /**
   * Throws if the folder, or the journal in it, is gone or no longer belongs to this process: what was
   * written then may not be where the next start reads it, and nothing may be acknowledged.
   */
  confirm(): void {
    const folder = this.io.identity(this.folder);
    const isUntouched =
      folder !== undefined && this.#confirmed !== undefined && isUnchanged(folder, this.#confirmed);
    if (isUntouched && this.claim.isTrusted) return;
    this.claim.check();
    if (this.active !== undefined) this.#confirmFile(this.active);
    this.#confirmed = folder !== undefined && showsChanges(folder) ? folder : undefined;
  }

  /** Confirms all files, also where one was written over under its name, which the folder does not show. */
  confirmAll(): void {
    this.claim.check();
    for (const segment of this.#order) this.#confirmFile(segment);
  }

  #confirmFile({ name, file, size }: Segment): void {
    const found = this.io.identity(`${this.folder}/${name}`);
    if (found !== undefined && isSameFile(found, file.identity) && found.size >= size) return;
    const what = found === undefined ? "is missing" : "is not the file that was written";
    throw folderGoneError(this.folder, `${name} ${what}`);
  }

  get order(): readonly Segment[] {
    return this.#order;
  }

  get bytes(): number {
    return this.#order.reduce((sum, segment) => sum + segment.size, 0);
  }

  /** Opens a file that the manifest names. */
  open(name: string, size: number | undefined): Segment {
    const handle = this.#openNamed(name);
    const segment: Segment = {
      id: this.#nextId++,
      kind: name.startsWith("journal.") ? "journal" : "table",
      name,
      file: new SharedFile(this.io, handle),
      size: size ?? this.#measure(handle),
      live: 0,
      bare: 0,
      isOutdated: false,
      removals: new Removals(),
      from: Number.MAX_SAFE_INTEGER,
    };
    this.#order.push(segment);
    this.#segments.set(segment.id, segment);
    return segment;
  }

  /** The end of the lines of a journal that is, or was, being written to. */
  #measure(handle: number): number {
    this.#openedSize = sizeWithoutZeros(this.io, handle);
    return this.#openedSize;
  }

  #openNamed(name: string): number {
    try {
      return this.io.open(`${this.folder}/${name}`, "read");
    } catch (error) {
      if (codeOf(error) !== "ENOENT") throw error;
      throw damageError({ file: name, byte: 0, what: "MANIFEST.json names it and it is missing" });
    }
  }

  /** Creates an empty file of lines; it is part of the store only once it is published. */
  create(kind: string, from: number): Segment {
    const { name, handle } = this.createFile(kind);
    const header = fileHeader({ kind, from });
    const segment: Segment = {
      id: this.#nextId++,
      kind: kind === "journal" ? "journal" : "table",
      name,
      file: new SharedFile(this.io, handle),
      size: header.length,
      live: 0,
      bare: 0,
      isOutdated: false,
      removals: new Removals(),
      from,
    };
    try {
      writeFully(this.io, handle, header, 0);
    } catch (error) {
      this.discard(segment);
      throw error;
    }
    return segment;
  }

  createFile(kind: string): { name: string; handle: number } {
    const name = `${kind}.${this.#nextNumber++}.jsonl`;
    return { name, handle: this.io.open(`${this.folder}/${name}`, "create") };
  }

  /** Creates a file for a checkpoint, which counts once a manifest names it. */
  createCheckpoint(): { name: string; handle: number } {
    const name = `checkpoint.${this.#nextNumber++}.bin`;
    return { name, handle: this.io.open(`${this.folder}/${name}`, "create") };
  }

  /** Makes `order` the content of the store; its last file is the one written to if `active` is set. */
  async publish(order: readonly Segment[], active: Segment | undefined): Promise<void> {
    const files = order.map((segment) =>
      segment === active ? { name: segment.name } : { name: segment.name, size: segment.size },
    );
    const { claim, checkpoint } = this;
    const next = this.#nextNumber + NUMBERS;
    await claim.publish({ format: 1, owner: claim.owner, next, files, ...(checkpoint && { checkpoint }) });
    this.#order = [...order];
    this.active = active;
    for (const segment of order) this.#segments.set(segment.id, segment);
  }

  /**
   * Marks all files as complete and releases the folder, so that any process may take it over; with a mark, nobody
   * may.
   */
  async release(moved?: Mark): Promise<void> {
    const files = this.#order.map(({ name, size }) => ({ name, size }));
    const { claim, checkpoint } = this;
    if (moved === undefined) await claim.publish({ format: 1, files, ...(checkpoint && { checkpoint }) });
    else await claim.publish({ format: "moved", files, moved });
    this.active = undefined;
  }

  /** Releases a file that is not, or no longer, part of the store. */
  discard(segment: Segment): void {
    this.#segments.delete(segment.id);
    segment.file.retire();
    this.removeFile(segment.name);
  }

  removeFile(name: string): void {
    try {
      this.claim.check();
    } catch {
      // The file with this name may now be somebody else's.
      return;
    }
    // It is not in the manifest: if it stays, it only uses space until the next start.
    const failed = (error: unknown) => {
      if (codeOf(error) === "ENOENT") return;
      this.#log.warn(`Store: ${name} could not be removed`, { error: String(error) });
    };
    this.io.discard(`${this.folder}/${name}`, failed);
  }

  /** Files of lines with more than a head, which is all that a crash before the first manifest leaves. */
  orphans(): string[] {
    return this.#strays()
      .filter(({ size }) => size > 256)
      .map(({ name }) => name);
  }

  /** Files of lines that are not open here. */
  strays(): string[] {
    return this.#strays().map(({ name }) => name);
  }

  /** Removes files that no manifest names, what a crash left of a compaction, and checkpoints that are not used. */
  sweep(): void {
    for (const { name } of this.#strays()) this.removeFile(name);
    for (const name of this.io.list(this.folder))
      if (CHECKPOINT_FILE.test(name) && name !== this.checkpoint?.name) this.removeFile(name);
  }

  /** Files that were written by a store and that the manifest does not name; others of such a name are not ours. */
  #strays(): { name: string; size: number }[] {
    const named = new Set(this.#order.map((segment) => segment.name));
    const strays: { name: string; size: number }[] = [];
    for (const name of this.io.list(this.folder)) {
      if (!LINES_FILE.test(name) || named.has(name)) continue;
      try {
        const size = this.#sizeOfOurs(name);
        if (size !== undefined) strays.push({ name, size });
      } catch (error) {
        // An earlier store of this process may still be removing it.
        if (codeOf(error) !== "ENOENT") throw error;
      }
    }
    return strays;
  }

  /** The size of a file that a store wrote; `undefined` for one of somebody else. */
  #sizeOfOurs(name: string): number | undefined {
    const handle = this.io.open(`${this.folder}/${name}`, "read");
    try {
      const head = Buffer.alloc(HEAD.length);
      const length = readFully(this.io, handle, head, 0);
      // Without its first bytes on disk it is a file that was just started.
      const isOurs = head.equals(HEAD) || head.every((byte, at) => at >= length || byte === 0);
      return isOurs ? this.io.size(handle) : undefined;
    } finally {
      this.io.close(handle);
    }
  }

  close(): void {
    for (const segment of this.#order) segment.file.retire();
  }
}

/**
 * Whether the next change in a folder will give it another time. File systems count time in ticks of some milliseconds,
 * or in whole seconds; Windows may be late with it.
 */
function showsChanges({ changed }: FileIdentity): boolean {
  const tick = changed % 1 === 0 ? 3000 : 100;
  return process.platform !== "win32" && Date.now() - changed > tick;
}

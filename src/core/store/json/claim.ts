import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import {
  codeOf,
  type FileIdentity,
  isNoRoom,
  isSameFile,
  isUnchanged,
  type StoreIo,
  writeFully,
} from "../../storage/file-io.ts";
import { storageError } from "../storage-error.ts";
import { folderGoneError, folderReplacedError, ownerLostError } from "./disk-errors.ts";
import {
  type ClosedManifest,
  MANIFEST,
  type Manifest,
  manifestText,
  type Owner,
  parseManifest,
  readManifestText,
} from "./manifest.ts";

/** Manifests that are being written; the first form is that of version 0.1.0. */
const TEMPORARY = /^MANIFEST\.(json|[0-9a-f]+)\.tmp$/;

/**
 * The right to write to a folder: the manifest names its owner. A lock only excludes processes of the same
 * host; if two hosts share a folder, the one that opens it last takes it over from the other, which then must
 * not acknowledge anything.
 *
 * A process that takes over a folder removes the manifests that others are writing, then reads the existing
 * one, then puts its own in place. The owner of a folder writes a manifest only if nobody is taking it over:
 * it creates its own first and then looks for others. So of two that write at the same time one fails, and
 * the process that takes over has seen the last manifest of the previous owner, and after it every line that
 * the previous owner has acknowledged.
 */
export class Claim {
  readonly #io: StoreIo;
  readonly #folder: string;
  /** Whether another host may have replaced a file without it showing in its identity. */
  readonly #isShared: boolean;
  readonly owner: Owner = { token: randomBytes(12).toString("hex"), host: hostname(), pid: process.pid };
  /** The manifest as this process wrote it, and its file when it was last checked; none in a new folder. */
  #text: string | undefined;
  #file: FileIdentity | undefined;
  /** The folder, while it has no manifest. */
  #place: FileIdentity | undefined;
  /** The manifest's content when there was no space to write this process into it. */
  #refused: string | undefined;
  #lost: Error | undefined;

  constructor(io: StoreIo, folder: string) {
    this.#io = io;
    this.#folder = folder;
    this.#isShared = io.fileSystem(folder).kind === "network";
  }

  /** Whether the folder, while nothing changes in it, belongs to this process. */
  get isTrusted(): boolean {
    const isOwned = this.#text !== undefined && this.#refused === undefined && this.#lost === undefined;
    return isOwned && !this.#isShared;
  }

  /** Whether the folder is taken over, or is new; false if there was no space to record it. */
  get isHeld(): boolean {
    return this.#refused === undefined;
  }

  /**
   * Takes over the folder. Resolves with the previous manifest, `undefined` if there is none. `makeRoom` is
   * called if the disk is full; if that does not help, the folder can be read, and taken over later.
   */
  async take(makeRoom: () => void): Promise<Manifest | undefined> {
    if (!this.#io.list(this.#folder).includes(MANIFEST)) {
      this.#removeOthers();
      this.#place = this.#io.identity(this.#folder);
      return undefined;
    }
    try {
      return await this.#replace();
    } catch (error) {
      if (!isNoRoom(error)) throw error;
    }
    makeRoom();
    try {
      return await this.#replace();
    } catch (error) {
      if (!isNoRoom(error)) throw error;
      this.#refused = readManifestText(this.#io, this.#folder);
      return parseManifest(this.#refused);
    }
  }

  /** Takes over the folder regardless of its manifest; the manifest stays until another one is published. */
  seize(): void {
    this.#removeOthers();
    if (this.#io.list(this.#folder).includes(MANIFEST)) this.#text = readManifestText(this.#io, this.#folder);
    else this.#place = this.#io.identity(this.#folder);
  }

  /**
   * Takes over a folder for which there was no space before. Throws if somebody else has written to it since.
   */
  async takeAgain(): Promise<void> {
    if (this.#refused === undefined) return;
    await this.#replace(this.#refused);
    this.#refused = undefined;
  }

  /**
   * Throws if the folder is gone or belongs to somebody else. Costs one stat of a name if nothing has
   * changed.
   */
  check(): void {
    if (this.#lost !== undefined) throw this.#lost;
    if (this.#refused !== undefined) throw unclaimedError(this.#folder);
    if (this.#text === undefined) {
      this.#checkPlace();
      return;
    }
    const file = this.#io.identity(this.#path);
    if (file === undefined) throw folderGoneError(this.#folder, `${MANIFEST} is missing`);
    if (!this.#isShared && this.#file !== undefined && isUnchanged(file, this.#file)) return;
    const text = readManifestText(this.#io, this.#folder);
    if (text !== this.#text) throw this.lose(explain(text, this.owner, this.#folder));
    this.#file = file;
  }

  /** Publishes a manifest, atomically. */
  async publish(manifest: Manifest | ClosedManifest): Promise<void> {
    // An unfinished manifest would block the current owner of the folder.
    if (this.#lost !== undefined) throw this.#lost;
    await this.#put(() => {
      if (this.#others().length > 0) throw takingError(this.#folder);
      this.check();
      return manifest;
    });
    await this.#io.syncFolder(this.#folder);
  }

  /**
   * Writes this process into the existing manifest, which must be `expected` if that is given. The folder is
   * not synced: a power cut that undoes it ends this process as well.
   */
  async #replace(expected?: string): Promise<Manifest> {
    let before: Manifest | undefined;
    await this.#put(() => {
      this.#removeOthers();
      const text = readManifestText(this.#io, this.#folder);
      before = parseManifest(text);
      if (expected !== undefined && text !== expected)
        throw this.lose(explain(text, this.owner, this.#folder));
      const { format, owner: _, ...rest } = before;
      return { format, owner: this.owner, ...rest };
    });
    return before!;
  }

  /** Replaces the manifest. Its content is requested once others can see that it is being written. */
  async #put(decide: () => Manifest | ClosedManifest): Promise<void> {
    const { path, file } = this.#create();
    let text: string;
    let written: FileIdentity;
    try {
      text = manifestText(decide());
      writeFully(this.#io, file, Buffer.from(text), 0);
      await this.#io.sync(file);
      written = this.#io.identityOf(file);
    } catch (error) {
      this.#io.close(file);
      this.#tryToRemove(path);
      throw error;
    }
    this.#io.close(file);
    try {
      this.#io.rename(path, this.#path);
    } catch (error) {
      if (codeOf(error) === "ENOENT") throw takingError(this.#folder, error);
      throw error;
    }
    this.#text = text;
    // Renaming updates its change time. A file of another process is read at the next check.
    const now = this.#io.identity(this.#path);
    this.#file = now !== undefined && isSameFile(now, written) ? now : undefined;
  }

  #create(): { path: string; file: number } {
    const path = `${this.#folder}/MANIFEST.${this.owner.token}.tmp`;
    if (this.#io.list(this.#folder).includes(path.slice(this.#folder.length + 1))) this.#io.remove(path);
    return { path, file: this.#io.open(path, "create") };
  }

  #tryToRemove(path: string): void {
    try {
      this.#io.remove(path);
    } catch {
      // It is gone with the folder, or stays until the store is opened again.
    }
  }

  /** A folder without manifest must stay so, and stay the same. */
  #checkPlace(): void {
    const place = this.#io.identity(this.#folder);
    const isSame = place !== undefined && this.#place !== undefined && isSameFile(place, this.#place);
    if (!isSame) throw folderGoneError(this.#folder, "it is not the folder that was opened");
    if (this.#io.identity(this.#path) === undefined) return;
    throw this.lose(explain(readManifestText(this.#io, this.#folder), this.owner, this.#folder));
  }

  /** Gives up the folder permanently; returns the reason. */
  lose(error: Error = folderReplacedError(this.#folder)): Error {
    this.#lost = error;
    return error;
  }

  #others(): string[] {
    const own = `MANIFEST.${this.owner.token}.tmp`;
    return this.#io.list(this.#folder).filter((name) => TEMPORARY.test(name) && name !== own);
  }

  #removeOthers(): void {
    for (const name of this.#others()) {
      try {
        this.#io.remove(`${this.#folder}/${name}`);
      } catch (error) {
        if (codeOf(error) !== "ENOENT") throw error;
      }
    }
  }

  get #path(): string {
    return `${this.#folder}/${MANIFEST}`;
  }
}

/** Why a manifest is not the one that `own` wrote. */
function explain(text: string, own: Owner, folder: string): Error {
  try {
    const { owner } = parseManifest(text);
    if (owner !== undefined && owner.token !== own.token) return ownerLostError(folder, owner);
  } catch {
    // Reported as a replacement: its content does not matter to this process.
  }
  return folderReplacedError(folder);
}

function takingError(folder: string, cause?: unknown): Error {
  return storageError(
    `Another process is taking over ${folder}: nothing was stored`,
    "Run one instance on a data folder. The service retries automatically.",
    cause,
  );
}

function unclaimedError(folder: string): Error {
  return storageError(
    `No space left in ${folder} to take over the store: nothing was stored`,
    `Free space on the disk of ${folder}; the service continues automatically.`,
  );
}

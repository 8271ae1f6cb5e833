import { open } from "node:fs/promises";
import type { StoreIo } from "../../storage/file-io.ts";
import { Contents } from "../json/contents.ts";
import { FileSet } from "../json/file-set.ts";
import { loadFiles, openNamed } from "../json/load.ts";
import { MANIFEST, readManifest } from "../json/manifest.ts";
import { storageError } from "../storage-error.ts";
import { ShippingRecord } from "./shipping-record.ts";

const SILENT = { info() {}, warn() {}, error() {} };
/** How the names of folders begin with writes that were not shipped before another instance took over. */
const ASIDE = "unshipped-";

/** A data folder whose store is shipped to a storage. Somebody else must have locked it. */
export class ShippedFolder {
  readonly path: string;
  readonly #io: StoreIo;

  constructor(io: StoreIo, path: string) {
    this.#io = io;
    this.path = path;
  }

  /** Whether there is a store. Rejects if it cannot be opened. */
  get hasStore(): boolean {
    if (readManifest(this.#io, this.path) !== undefined) return true;
    // Throws if files of a store are there without it.
    openNamed(this.#files(), undefined);
    return false;
  }

  /** Number of the last write in the files. */
  async lastWrite(): Promise<number> {
    const contents = new Contents(new Map());
    const files = this.#files(contents);
    try {
      const unsealed = openNamed(files, readManifest(this.#io, this.path));
      return (await loadFiles(files, contents, unsealed)).last;
    } finally {
      files.close();
    }
  }

  /** Removes the files of a store; also what is left of an earlier attempt. */
  async clear(): Promise<void> {
    await this.#each((name) => this.#io.remove(`${this.path}/${name}`), "first");
  }

  /** Moves the files of a store into a folder in this one; also what is left of an earlier attempt. */
  async moveInto(name: string): Promise<void> {
    const target = `${this.path}/${name}`;
    this.#io.makeFolder(target);
    await this.#each((each) => this.#io.rename(`${this.path}/${each}`, `${target}/${each}`), "last");
    await this.#io.syncFolder(target);
  }

  /** A new name for a folder for `moveInto`. */
  static asideName(now: Date): string {
    return `${ASIDE}${now.toISOString().replace(/[:.]/g, "-")}`;
  }

  /** The folders that `moveInto` has made and that nobody has removed. */
  aside(): string[] {
    return this.#io.list(this.path).filter((name) => name.startsWith(ASIDE));
  }

  /** Resolves once files that were written here are on disk. */
  async sync(): Promise<void> {
    const manifest = readManifest(this.#io, this.path);
    if (manifest === undefined) return;
    for (const { name } of [...manifest.files, { name: MANIFEST }]) {
      const file = await open(`${this.path}/${name}`, "r+");
      try {
        await file.sync();
      } finally {
        await file.close();
      }
    }
    await this.#io.syncFolder(this.path);
  }

  /** The manifest comes last where the files are still needed, as without it nobody would find them. */
  async #each(work: (name: string) => void, manifest: "first" | "last"): Promise<void> {
    const io = this.#io;
    const lines = this.#files().strays();
    const hasManifest = io.list(this.path).includes(MANIFEST);
    if (hasManifest && manifest === "first") {
      work(MANIFEST);
      await io.syncFolder(this.path);
    }
    for (const name of lines) work(name);
    if (hasManifest && manifest === "last") work(MANIFEST);
    await io.syncFolder(this.path);
  }

  #files(contents = new Contents(new Map())): FileSet {
    return new FileSet({ io: this.#io, folder: this.path, log: SILENT, segments: contents.segments });
  }
}

/** Refuses a folder with writes that were never shipped: with the journal in the bucket, they would not be used. */
export async function refuseUnshipped(io: StoreIo, dataDir: string): Promise<void> {
  if (!ShippingRecord.isIn(io, dataDir)) return;
  const folder = new ShippedFolder(io, dataDir);
  const { shipped, doing } = new ShippingRecord(io, dataDir).value;
  if (doing !== undefined || !folder.hasStore) return;
  const last = await folder.lastWrite();
  if (last <= shipped.last) return;
  throw storageError(
    `${dataDir} has writes that may not be in the storage (${last - shipped.last})`,
    'Start the service once more with durability "disk" and stop it: it ships them. Or move the folder away.',
  );
}

import { existsSync, realpathSync } from "node:fs";
import { fileDriver } from "../../storage/file.ts";
import type { StoreIo } from "../../storage/file-io.ts";
import { nodeIo } from "../../storage/node-io.ts";
import { openStorage, type UnstorageStorage } from "../../storage/open-storage.ts";
import type { Mark } from "../closed.ts";
import { type Content, type PartSum, sumsOf } from "../content.ts";
import type { Place, PlaceState } from "../move.ts";
import type { StoreLogger } from "../store.ts";
import { Claim } from "./claim.ts";
import { readContent, readFiles, writeContent } from "./folder-content.ts";
import { type FolderLock, lockFolder } from "./folder-lock.ts";
import { HEADROOM } from "./headroom.ts";
import { clearIncomplete, fillFolder, incompleteMove, isOfStore } from "./incomplete.ts";
import { openBackend } from "./json-backend.ts";
import { readAnyManifest } from "./manifest.ts";
import { nodeTimers } from "./timers.ts";

const SILENT: StoreLogger = { info() {}, warn() {}, error() {} };

/** A data folder, as a place that a store is moved from or to. It may have keys and other files of a service. */
export class FolderPlace implements Place {
  readonly name: string;
  readonly folder: string;
  readonly #io: StoreIo = nodeIo;
  #lock: FolderLock | undefined;

  constructor(folder: string) {
    this.folder = existsSync(folder) ? realpathSync(folder) : folder;
    this.name = `folder ${this.folder}`;
  }

  async lock(): Promise<void> {
    this.#io.makeFolder(this.folder);
    this.#lock = await lockFolder(this.folder, SILENT);
  }

  async release(): Promise<void> {
    await this.#lock?.release();
    this.#lock = undefined;
  }

  get contents(): UnstorageStorage {
    return openStorage(fileDriver({ folder: this.folder }));
  }

  async state(): Promise<PlaceState> {
    const names = this.#io.list(this.folder);
    const move = incompleteMove(this.#io, this.folder);
    if (move !== undefined) return { kind: "incomplete", move: move || undefined };
    const manifest = readAnyManifest(this.#io, this.folder);
    if (manifest === undefined) return { kind: names.some(isOfStore) ? "open" : "empty" };
    return manifest.format === "moved" ? { kind: "closed", mark: manifest.moved } : { kind: "open" };
  }

  read<T>(work: (content: Content) => Promise<T>): Promise<T> {
    return readContent(this.#io, this.folder, work);
  }

  async setMark(mark: Mark | undefined): Promise<void> {
    const [io, folder] = [this.#io, this.folder];
    if (readAnyManifest(io, folder)?.format === 1) await this.#seal();
    const claim = new Claim(io, folder);
    claim.seize();
    const { next, files } = readAnyManifest(io, folder)!;
    const rest = { ...(next !== undefined && { next }), files };
    await claim.publish(
      mark === undefined ? { format: 1, ...rest } : { format: "moved", ...rest, moved: mark },
    );
  }

  /** Reads and checks everything, and ends what a crash has left open, as a start and a stop do. */
  async #seal(): Promise<void> {
    const backend = await openBackend(new Map(), {
      ...{ folder: this.folder, log: SILENT, io: this.#io, timers: nodeTimers, lock: false },
      ...{ journalBytes: 16 * 1024 * 1024, reserveBytes: 1024 * 1024, headroom: HEADROOM },
    });
    await backend.close();
  }

  async fill(
    content: Content,
    mark: Mark | undefined,
    check: (sums: readonly PartSum[]) => void,
  ): Promise<void> {
    const [io, folder] = [this.#io, this.folder];
    const fill = async () => {
      await writeContent(io, folder, content, mark);
      check(await readFiles(io, folder, sumsOf));
    };
    await fillFolder(io, folder, fill, { move: mark?.move ?? "", isAllowed: (name) => !isOfStore(name) });
  }

  async clear(move: string): Promise<void> {
    await clearIncomplete(this.#io, this.folder, move);
  }
}

/** Whether a folder, which may not exist, has a store that can be opened. */
export function hasOpenStore(folder: string): boolean {
  try {
    return existsSync(folder) && readAnyManifest(nodeIo, folder)?.format === 1;
  } catch {
    return false;
  }
}

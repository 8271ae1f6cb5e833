import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { nodeIo } from "../../storage/node-io.ts";
import { openStorage, type StorageLike, type UnstorageStorage } from "../../storage/open-storage.ts";
import type { Mark } from "../closed.ts";
import { type Content, type PartSum, sumsOf } from "../content.ts";
import { readContent, readFiles, writeContent } from "../json/folder-content.ts";
import { HEADROOM } from "../json/headroom.ts";
import { openBackend } from "../json/json-backend.ts";
import { nodeTimers } from "../json/timers.ts";
import type { Place, PlaceState } from "../move.ts";
import { storageError } from "../storage-error.ts";
import type { StoreLogger } from "../store.ts";
import { BaseWriter } from "./base-writer.ts";
import { baseContent, type Chain, type Taken } from "./chain.ts";
import { readMark, writeMark } from "./mark.ts";
import { openObjects } from "./objects.ts";
import { restoreFolder } from "./restore.ts";
import { type Objects, RELEASED, seal } from "./sealed.ts";
import { findLiveOwner, takeOver } from "./take-over.ts";

const SILENT: StoreLogger = { info() {}, warn() {}, error() {} };

interface BucketPlaceOptions {
  /** For people: the URL without parameters. */
  readonly name: string;
  readonly storage: StorageLike;
  /** Milliseconds without a sign of life after which a service that has not released the store counts as dead. @default 30000 */
  readonly dead?: number;
}

/**
 * A storage, as a place that a store is moved from or to. While it is locked, this process is the owner of the journal: a
 * service that starts meanwhile takes it over, finds the mark and stops, and the move fails and can be repeated.
 */
export class BucketPlace implements Place {
  readonly name: string;
  readonly contents: UnstorageStorage;
  readonly #objects: Objects;
  readonly #dead: number | undefined;
  #owned: { readonly chain: Chain; readonly taken: Taken } | undefined;
  /** On this disk: what the journal had when it was taken. */
  #folder: string | undefined;

  constructor({ name, storage, dead }: BucketPlaceOptions) {
    this.name = `storage ${name}`;
    this.#objects = openObjects(storage);
    this.contents = openStorage(storage);
    this.#dead = dead;
  }

  async lock(): Promise<void> {
    const owner = await findLiveOwner(this.#objects, this.#dead);
    if (owner !== undefined) {
      throw storageError(
        `${this.name} is used by a service${owner.by ? ` (process ${owner.by.pid} on ${owner.by.host})` : ""}`,
        "Stop that service first.",
      );
    }
    await this.#take();
  }

  async release(): Promise<void> {
    const owned = this.#owned;
    this.#forget();
    this.#owned = undefined;
    // Only a hint: the next service then does not wait for a sign of life.
    if (owned) await this.#objects.put(RELEASED, seal({ epoch: owned.chain.epoch })).catch(() => {});
  }

  async state(): Promise<PlaceState> {
    const mark = await readMark(this.#objects);
    const { base, groups } = this.#taken;
    const isEmpty = (base?.files ?? []).length === 0 && groups.length === 0;
    if (mark === undefined) return { kind: isEmpty ? "empty" : "open" };
    if (mark.move === "") return { kind: "incomplete", move: undefined };
    return isEmpty && mark.state === "filled"
      ? { kind: "incomplete", move: mark.move }
      : { kind: "closed", mark };
  }

  async read<T>(work: (content: Content) => Promise<T>): Promise<T> {
    return readContent(nodeIo, await this.#restored(), work);
  }

  async setMark(mark: Mark | undefined): Promise<void> {
    await writeMark(this.#objects, mark);
    // A service that took over before has not seen it.
    await this.#owned!.chain.check();
  }

  async fill(
    content: Content,
    mark: Mark | undefined,
    check: (sums: readonly PartSum[]) => void,
  ): Promise<void> {
    const state = await this.state();
    const isRepeated = mark === undefined && state.kind === "incomplete" && state.move === undefined;
    if (state.kind !== "empty" && !isRepeated)
      throw storageError(`${this.name} is not empty`, "Use a new bucket, or another prefix.");
    await this.setMark(mark ?? { move: "", state: "filled", other: "a copy", at: new Date().toISOString() });
    const folder = newFolder();
    try {
      await writeContent(nodeIo, folder, content, undefined);
      await this.#replace(folder);
      await this.#take();
      check(await readFiles(nodeIo, await this.#restored(), sumsOf));
    } catch (error) {
      await this.#replace(undefined).catch(() => {});
      throw error;
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
    if (mark === undefined) await this.setMark(undefined);
  }

  async clear(move: string): Promise<void> {
    const mark = await readMark(this.#objects);
    if (mark?.move !== move) return;
    await this.#replace(undefined);
    await this.#take();
    await this.setMark(undefined);
  }

  get #taken(): Taken {
    return this.#owned!.taken;
  }

  async #take(): Promise<void> {
    this.#forget();
    const by = { token: randomBytes(12).toString("hex"), host: hostname(), pid: process.pid };
    this.#owned = await takeOver(this.#objects, { by, durability: "bucket" });
  }

  #forget(): void {
    if (this.#folder !== undefined) rmSync(this.#folder, { recursive: true, force: true });
    this.#folder = undefined;
  }

  async #restored(): Promise<string> {
    if (this.#folder === undefined) {
      this.#folder = newFolder();
      await restoreFolder(this.#objects, join(this.#folder, "store"), this.#taken);
    }
    return join(this.#folder, "store");
  }

  /** Makes the files in a folder the whole content of the journal, or nothing. Entries of earlier owners stay. */
  async #replace(folder: string | undefined): Promise<void> {
    const { chain, taken } = this.#owned!;
    const pin = () => Promise.reject(new Error("only whole folders are stored"));
    const writer = new BaseWriter({
      ...{ objects: this.#objects, chain, taken, pin, log: SILENT, isRestored: false },
    });
    const slot = chain.slot + 1;
    const store = (files: Awaited<ReturnType<typeof pinFiles>>["files"]) =>
      writer.replace({ slot, files }, (base) => chain.append(baseContent(base), { kind: "base" }));
    if (folder === undefined) return store([]);
    const { files, close } = await pinFiles(folder);
    try {
      await store(files);
    } finally {
      await close();
    }
  }
}

async function pinFiles(folder: string) {
  const backend = await openBackend(new Map(), {
    ...{ folder, log: SILENT, io: nodeIo, timers: nodeTimers, lock: false },
    ...{ journalBytes: 16 * 1024 * 1024, reserveBytes: 64 * 1024, headroom: HEADROOM },
  });
  const { files } = await backend.pin(() => undefined);
  return { files, close: () => backend.close() };
}

function newFolder(): string {
  return mkdtempSync(join(tmpdir(), "svc-storage-"));
}

import { setTimeout as delay } from "node:timers/promises";
import { OptionsError } from "../../base/check-options.ts";
import { messageOf } from "../../base/error-text.ts";
import type { StartTimer } from "../../base/timer.ts";
import { openStorage, type StorageLike, type UnstorageStorage } from "../../storage/open-storage.ts";
import { type SendBackup, sendSnapshot } from "../engine/snapshot.ts";
import type { Store, StoreLogger } from "../store.ts";
import { type Generation, readManifest, writeGeneration } from "./generation.ts";
import { listGenerations, pruneGenerations } from "./generations.ts";

/** Milliseconds that a request gets to end when the service closes. */
const GRACE = 1000;
/** Milliseconds after which a backup that failed is tried again, at most. */
const RETRY = 60_000;

export interface BackupParts {
  readonly storage: StorageLike;
  /** Milliseconds from one backup to the next. */
  readonly every: number;
  /** Milliseconds for which backups are kept. */
  readonly keep: number;
  readonly store: Store;
  /** Where the contents of files are. */
  readonly contents?: UnstorageStorage | undefined;
  readonly version: string;
  readonly log: StoreLogger;
  readonly clock: () => Date;
  /** Ends waits at their time of day. */
  readonly startTimer: StartTimer;
}

export interface BackupState {
  /** The last complete backup, of any instance; `null` if there is none. */
  readonly last: { readonly made_at: string; readonly bytes: number } | null;
  /** Seconds since the last backup: what was stored since is not in one. */
  readonly lag: number | null;
  /** Seconds from one backup to the next. */
  readonly every: number;
  /** Why the last attempt failed. */
  readonly error: string | null;
}

/** Ships the store of a service to a storage again and again. Of instances that share a store, one does at a time. */
export class Backups {
  readonly #parts: BackupParts;
  readonly #storage: UnstorageStorage;
  #last: Generation | undefined;
  #error: string | null = null;
  #stopTimer: () => void = () => {};
  #running: Promise<unknown> | undefined;
  #isClosed = false;

  constructor(parts: BackupParts) {
    if (parts.store.snapshot === undefined)
      throw new OptionsError(
        "This store cannot be backed up: remove the option backup, or use the store's own tools",
      );
    this.#parts = parts;
    this.#storage = openStorage(parts.storage);
  }

  state(): BackupState {
    const { clock, every } = this.#parts;
    const last = this.#last;
    return {
      last: last === undefined ? null : { made_at: last.made_at, bytes: last.bytes },
      lag: last === undefined ? null : Math.max(0, (clock().getTime() - Date.parse(last.made_at)) / 1000),
      every: every / 1000,
      error: this.#error,
    };
  }

  /** Makes a backup when the last one is old enough, from now on. */
  start(): void {
    const turn = (): void => {
      this.#running = this.#turn().finally(() => {
        if (!this.#isClosed) this.#stopTimer = this.#parts.startTimer(this.#pause(), turn, "schedule");
      });
    };
    this.#stopTimer = this.#parts.startTimer(0, turn, "schedule");
  }

  /** Makes a backup now, and removes those that have expired. */
  async run(): Promise<Generation> {
    const { store, contents, clock, keep, version, log } = this.#parts;
    const now = clock();
    async function* send(has?: Parameters<SendBackup>[0]) {
      yield* sendSnapshot(await store.snapshot!(), contents, has);
    }
    const sending: SendBackup = (has) => this.#unlessClosed(send(has));
    this.#last = await writeGeneration(this.#storage, sending, { now, version });
    const { id, bytes, parts, contents: files } = this.#last;
    log.info("the store was backed up", {
      ...{ backup: id, bytes, parts: parts.length },
      ...(files && { files: files.bytes, added: files.added }),
    });
    const removed = await pruneGenerations(this.#storage, { now, keep });
    if (removed > 0) log.info("expired backups were removed", { backups: removed });
    return this.#last;
  }

  /** Stops; a backup that is being shipped is left incomplete. A request that hangs is not waited for. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#stopTimer();
    const patience = new AbortController();
    await Promise.race([this.#running, delay(GRACE, undefined, patience).catch(() => {})]);
    patience.abort();
  }

  async #turn(): Promise<void> {
    const { log, store } = this.#parts;
    try {
      await this.#findLast();
      // One that does not write has nothing of its own: another one has the store.
      if (this.#left() <= 0 && store.health().writable) await this.run();
      this.#error = null;
    } catch (error) {
      if (this.#isClosed) return;
      this.#error = messageOf(error);
      log.warn("the store could not be backed up yet", { error });
    }
  }

  /** Another instance may have made one. */
  async #findLast(): Promise<void> {
    const last = (await listGenerations(this.#storage)).at(-1);
    if (last?.id !== this.#last?.id) this.#last = last && (await readManifest(this.#storage, last.id));
  }

  /** Milliseconds until the next backup is due. */
  #left(): number {
    const { clock, every } = this.#parts;
    if (this.#last === undefined) return 0;
    // A clock that was set back must not stop backups.
    return Math.min(every, Date.parse(this.#last.made_at) + every - clock().getTime());
  }

  #pause(): number {
    const { every, store } = this.#parts;
    const left = this.#left();
    if (left <= 0) return Math.min(RETRY, every);
    // Instances that share a store do not all begin at the same moment.
    return store.isShared ? left * (1 + Math.random() / 10) : left;
  }

  async *#unlessClosed(sent: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
    for await (const chunk of sent) {
      if (this.#isClosed) throw new Error("the service closes");
      yield chunk;
    }
  }
}

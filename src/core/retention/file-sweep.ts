import type { Logger } from "../base/log.ts";
import type { StartTimer } from "../base/timer.ts";
import { type Files, UPLOAD_KEEP } from "../entities/files.ts";
import { ownerOf } from "../entities/job-files.ts";
import type { UnstorageStorage } from "../storage/open-storage.ts";
import { FileChunks } from "../store/files/file-chunks.ts";
import { type Position, type Store, StoreMissingError, type Tables } from "../store/store.ts";

/** Milliseconds from one sweep to the next, and from one search for chunks that nothing names to the next. */
const PAUSE = 10 * 60_000;
const SEARCH = 24 * 3_600_000;
/** Rows that are read at a time. */
const PAGE = 200;

export interface FileSweepParts {
  readonly files: Files;
  readonly store: Store;
  readonly storage: UnstorageStorage;
  readonly log: Logger;
  readonly clock: () => Date;
  readonly startTimer: StartTimer;
}

/** What a sweep has removed. */
export interface Swept {
  readonly uploads: number;
  readonly contents: number;
  /** Chunks that nothing named, which a crash has left. */
  readonly orphans: number;
}

/** Removes uploads that were not used, contents that nothing names, and chunks that a crash has left. */
export class FileSweep {
  readonly #parts: FileSweepParts;
  #stopTimer: () => void = () => {};
  #running: Promise<unknown> | undefined;
  #isClosed = false;
  #searched: number | undefined;

  constructor(parts: FileSweepParts) {
    this.#parts = parts;
  }

  start(): void {
    if (this.#isClosed) return;
    const { clock, log, startTimer } = this.#parts;
    const turn = (): void => {
      const isSearch = this.#searched === undefined || clock().getTime() - this.#searched >= SEARCH;
      this.#running = this.run({ isSearch })
        .catch((error: unknown) => log.warn("files could not be removed yet", { error }))
        .finally(() => {
          if (!this.#isClosed) this.#stopTimer = startTimer(PAUSE, turn, "schedule");
        });
    };
    // A start has other things to do.
    this.#stopTimer = startTimer(PAUSE / 10, turn, "schedule");
  }

  /** Stops after what it is removing. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#stopTimer();
    await this.#running;
  }

  /** Removes what is due now; with `isSearch`, also chunks that nothing names, for which it lists all. */
  async run({ isSearch }: { readonly isSearch: boolean }): Promise<Swept> {
    const { files, store, clock } = this.#parts;
    const now = clock().getTime();
    const expired = { where: { touched_at: { lt: now - UPLOAD_KEEP } }, sort: "touched_at", limit: PAGE };
    const uploads = await this.#each(
      () => store.table("FileUpload").ids(expired),
      (id) => files.discard(id),
    );
    const due = { where: { due_at: { lt: now + 1 } }, sort: "due_at", limit: PAGE };
    const contents = await this.#each(
      () => store.table("FileRemoval").ids(due),
      (place) => files.removePlace(place),
    );
    const orphans = isSearch ? await this.#removeOrphans() : 0;
    if (isSearch) await this.#nameOwners();
    if (isSearch) this.#searched = now;
    return { uploads, contents, orphans };
  }

  async #each(find: () => Promise<string[]>, remove: (id: string) => Promise<void>): Promise<number> {
    for (let count = 0; ; ) {
      const ids = await find();
      for (const id of ids) {
        if (this.#isClosed) return count;
        await remove(id);
        count++;
      }
      if (ids.length < PAGE) return count;
    }
  }

  /** Says of files that earlier versions have stored whose they are: before, only who sees everything is shown them. */
  async #nameOwners(): Promise<void> {
    const { store } = this.#parts;
    const unnamed = { where: { agent_name: null }, sort: "created_at", limit: PAGE, uncounted: true };
    for (let after: Position | undefined; !this.#isClosed; ) {
      const { items, next } = await store.table("JobFile").list({ ...unnamed, after });
      for (const { id, job_id } of items) {
        const job = await store.table("Job").peek(job_id);
        if (!job) continue;
        const { agent: agent_name, access } = ownerOf(job);
        await store
          .table("JobFile")
          .change(id, (row) => ({ ...row, agent_name, access }))
          .catch((error: unknown) => {
            // Its job was deleted meanwhile.
            if (!(error instanceof StoreMissingError)) throw error;
          });
      }
      if (next === undefined) return;
      after = next;
    }
  }

  /**
   * Chunks are listed before rows are read. What is written for a job has no row until the job names it, and is young. Any
   * other place has a row from before its first chunk on, and never one again once it has none: of an upload, which becomes
   * that of a content, and that of a removal, each in one step: they are read in this order.
   */
  async #removeOrphans(): Promise<number> {
    const { files, store, storage, log } = this.#parts;
    const chunks = new FileChunks(storage);
    const orphans = await chunks.list();
    for (const place of orphans.keys()) if (files.isUnderWay(place)) orphans.delete(place);
    if (orphans.size === 0) return 0;
    for await (const { place, sha256 } of rowsOf(store, "FileUpload"))
      if (sha256 === null) orphans.delete(place);
    for await (const { place, chunks } of rowsOf(store, "FileContent")) {
      const named = new Set(chunks.map(([id]) => id));
      const others = orphans.get(place)?.filter((id) => !named.has(id)) ?? [];
      if (others.length > 0) orphans.set(place, others);
      else orphans.delete(place);
    }
    let count = 0;
    for (const [place, ids] of orphans) {
      if (this.#isClosed) return count;
      if (await store.table("FileRemoval").get(place)) continue;
      await chunks.remove(place, ids);
      count += ids.length;
    }
    if (count > 0) log.info("parts of files that nothing names were removed", { parts: count });
    return count;
  }
}

/** All rows of a table, a page at a time; those that are added meanwhile may be missing. */
async function* rowsOf<K extends "FileUpload" | "FileContent">(
  store: Store,
  table: K,
): AsyncGenerator<Tables[K], void> {
  let after: Position | undefined;
  do {
    const page = await store.table(table).list({ sort: "id", limit: PAGE, after, uncounted: true });
    yield* page.items;
    after = page.next;
  } while (after);
}

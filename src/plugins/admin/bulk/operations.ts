import { createHash, randomUUID } from "node:crypto";
import { type Actor, type Caller, nameOf } from "../../../core/audit/caller.ts";
import { isServiceError, ServiceError } from "../../../core/base/errors.ts";
import type { Logger } from "../../../core/base/log.ts";
import type { Redactor } from "../../../core/base/redactor.ts";
import type { Runner } from "../../../core/runs/runner.ts";
import type { Store, Transaction } from "../../../core/store/store.ts";
import type { BulkRow } from "./bulk-table.ts";

/** An action on many entities: the selection is fixed at the preview, and executed as shown. */
export interface BulkOperation extends BulkRow {
  readonly ids: readonly string[];
}

export interface BulkRequest extends Pick<BulkRow, "kind" | "action" | "limits" | "cost" | "leftOut" | "by"> {
  readonly ids: readonly string[];
}

/** Entities in one operation. */
export const MOST_ENTITIES = 10_000;
const KEPT = 50;
const KEPT_FAILURES = 100;
/** Entities changed concurrently: others use the store too. */
const AT_ONCE = 4;
/** Milliseconds between two times that progress is stored, and that an abort on another instance is noticed. */
const PACE = 500;
/** Milliseconds without progress after which the instance that ran an operation is gone. */
const SILENCE = 60_000;

export interface BulkParts {
  readonly store: Store;
  readonly runner: () => Runner;
  readonly clock: () => Date;
  readonly redactor: Redactor;
  readonly log: Logger;
  /** Throws where the caller was removed since it has started an operation. */
  readonly assertStillIn: (by: Actor) => void;
}

/** An operation that this instance runs. */
interface Live {
  readonly operation: BulkOperation;
  done: number;
  readonly failures: Record<string, string>;
  isOver: boolean;
}

/** Previews and runs of actions on many entities: each is seen on every instance, and run by one. */
export class BulkOperations {
  readonly #parts: BulkParts;
  /** Who sees only the operations that it has made. */
  readonly #maker: Caller | undefined;
  readonly #live: Map<string, Live>;
  readonly #working: Set<Promise<void>>;

  constructor(parts: BulkParts);
  constructor(parts: BulkParts, maker: Caller, all: BulkOperations);
  constructor(parts: BulkParts, maker?: Caller, all?: BulkOperations) {
    this.#parts = parts;
    this.#maker = maker;
    this.#live = all ? all.#live : new Map();
    this.#working = all ? all.#working : new Set();
  }

  /** Those that a caller has made, where it sees a part: they do what its runner lets it do. */
  seenBy(caller: Caller, runner: () => Runner): BulkOperations {
    return caller.sight === undefined ? this : new BulkOperations({ ...this.#parts, runner }, caller, this);
  }

  /** Fixes the selection; nothing is changed yet. */
  async preview({ ids, ...request }: BulkRequest): Promise<BulkOperation> {
    const row: BulkRow = {
      id: randomUUID(),
      ...request,
      hash: hashOf({ ids, ...request }),
      createdAt: this.#parts.clock().toISOString(),
      state: "preview",
      done: 0,
      failures: {},
      alive: 0,
    };
    await this.#makeRoom(row.by);
    await this.#parts.store.transaction(async (tx) => {
      await tx.insert("BulkOperation", row);
      await tx.insert("BulkSelection", { id: row.id, ids });
    });
    return { ...row, ids };
  }

  async get(id: string): Promise<BulkOperation> {
    const row = await this.#table.get(id);
    const selection = await this.#parts.store.table("BulkSelection").get(id);
    if (!this.#isSeen(row) || !selection) throw notFound();
    const { ids } = selection;
    const live = this.#live.get(id);
    if (live) return { ...row, ids, done: live.done, failures: live.failures };
    return this.#isGone(row) ? { ...row, ids, state: "aborted" } : { ...row, ids };
  }

  /**
   * Makes a preview this instance's to run, inside a transaction: of several requests one gets it. The hash proves that it
   * is the one shown.
   */
  async claim(
    tx: Transaction,
    id: string,
    { hash, by }: { readonly hash: string; readonly by: Actor },
  ): Promise<BulkOperation> {
    const row = await tx.get("BulkOperation", id);
    const selection = await tx.get("BulkSelection", id);
    if (!this.#isSeen(row) || !selection) throw notFound();
    assertMayRun(row, hash, by);
    const claimed: BulkRow = { ...row, state: "running", alive: this.#now() };
    await tx.change("BulkOperation", id, () => claimed);
    return { ...claimed, ids: selection.ids };
  }

  /** Runs a claimed operation in the background. */
  start(operation: BulkOperation): void {
    const live: Live = { operation, done: 0, failures: {}, isOver: false };
    this.#live.set(operation.id, live);
    const working = this.#work(live)
      .catch(async (error: unknown) => {
        this.#parts.log.error("a bulk operation failed", { operation: operation.id, error });
        await this.#store(live, "aborted").catch(() => {});
      })
      .finally(() => {
        this.#live.delete(operation.id);
        this.#working.delete(working);
      });
    this.#working.add(working);
  }

  /**
   * Aborts an operation inside a transaction; resolves with how many entities were changed, where it was running. `halt` is
   * to be called once it is stored.
   */
  async abort(tx: Transaction, id: string): Promise<number | undefined> {
    const row = await tx.get("BulkOperation", id);
    if (!this.#isSeen(row)) throw notFound();
    if (row.state !== "running" && row.state !== "preview") return undefined;
    await tx.change("BulkOperation", id, (current) => ({ ...current, state: "aborted" }));
    const live = this.#live.get(id);
    if (live) return live.done;
    return row.state === "running" && !this.#isGone(row) ? row.done : undefined;
  }

  /** Stops what this instance runs of an operation, after the entities that are currently being changed. */
  halt(id: string): void {
    const live = this.#live.get(id);
    if (live) live.isOver = true;
  }

  /** Ends what this instance runs, after the entities that are currently being changed. */
  async close(): Promise<void> {
    for (const live of this.#live.values()) live.isOver = true;
    await Promise.all(this.#working);
  }

  async #work(live: Live): Promise<void> {
    const { log } = this.#parts;
    const { id, action, kind, ids, by } = live.operation;
    log.info("bulk operation started", { operation: id, action, kind, count: ids.length, by: nameOf(by) });
    let next = 0;
    const worker = async (): Promise<void> => {
      for (let at = next++; at < ids.length; at = next++) {
        if (live.isOver) return;
        await this.#change(live, ids[at]!);
        live.done++;
      }
    };
    const timer = setInterval(() => {
      this.#store(live, "running").catch((error: unknown) =>
        log.debug("the progress of a bulk operation could not be stored", { operation: id, error }),
      );
    }, PACE);
    await Promise.all(Array.from({ length: AT_ONCE }, worker)).finally(() => clearInterval(timer));
    const state = live.done === ids.length ? "done" : "aborted";
    await this.#store(live, state);
    const { done, failures } = live;
    const failed = Object.keys(failures).length;
    log.info("bulk operation ended", { operation: id, state, done, failed, by: nameOf(by) });
  }

  /** Stores the progress; ends the operation where another instance has aborted it. */
  async #store(live: Live, state: "running" | "done" | "aborted"): Promise<void> {
    const { done, failures, operation } = live;
    const alive = this.#now();
    const row = await this.#table.change(operation.id, (current) => ({
      ...current,
      ...{ done: Math.max(done, current.done), failures: { ...failures }, alive },
      state: current.state === "running" ? state : current.state,
    }));
    if (row.state !== "running") live.isOver = true;
  }

  async #change({ operation, failures }: Live, id: string): Promise<void> {
    const { action, kind, limits, by } = operation;
    const { log, redactor } = this.#parts;
    const runner = this.#parts.runner();
    try {
      this.#parts.assertStillIn(by);
      if (action === "stop") await runner.stop(id, by);
      else if (action === "retry") await runner.retry(id, "last_step", by);
      else if (action === "continue") await runner.continue(id, by);
      else if (action === "resume") await runner.resume(id, limits, by);
      else if (action === "restart") await runner.retry(id, "start", by);
      else if (action === "restore")
        await (kind === "jobs" ? runner.restore(id, by) : runner.restoreCase(id, by));
      else if (kind === "jobs") await runner.remove(id, by);
      else await runner.removeCase(id, by);
    } catch (error) {
      if (Object.keys(failures).length < KEPT_FAILURES)
        failures[id] = isServiceError(error) ? redactor.text(error.message) : "failed; see the log";
      if (!isServiceError(error)) log.error("a bulk change failed", { action, id, error });
    }
  }

  /** Whether it was running on an instance that has ended. */
  #isGone({ state, alive }: BulkRow): boolean {
    return state === "running" && this.#now() - alive > SILENCE;
  }

  #isSeen(row: BulkRow | undefined): row is BulkRow {
    return row !== undefined && (this.#maker === undefined || makerOf(row.by) === makerOf(this.#maker));
  }

  /** Of each named key and person so many are kept: nobody displaces what others have selected. */
  async #makeRoom(by: Actor): Promise<void> {
    const { items } = await this.#table.list({ sort: "-created_at", limit: Number.POSITIVE_INFINITY });
    const same = items.filter((row) => makerOf(row.by) === makerOf(by));
    const old = same.slice(KEPT - 1).filter((row) => row.state !== "running" || this.#isGone(row));
    if (old.length === 0) return;
    await this.#parts.store.transaction(async (tx) => {
      for (const { id } of old) {
        await tx.remove("BulkOperation", id);
        await tx.remove("BulkSelection", id);
      }
    });
  }

  #now(): number {
    return this.#parts.clock().getTime();
  }

  get #table() {
    return this.#parts.store.table("BulkOperation");
  }
}

/** The key or the person, by the id of its access; the API key, and sessions of nobody in particular, are one. */
function makerOf(by: Actor): string | undefined {
  return typeof by === "string" ? undefined : by.access;
}

function assertMayRun(row: BulkRow, hash: string, by: Actor): void {
  if (nameOf(row.by) !== nameOf(by)) {
    throw new ServiceError("forbidden", "Somebody else created this preview", {
      detail: "Create your own preview.",
    });
  }
  if (row.hash !== hash) {
    throw new ServiceError("invalid_request", "The hash does not match this preview", {
      detail: "Reload the preview.",
    });
  }
  if (row.state !== "preview") {
    throw new ServiceError("invalid_transition", `This operation is already ${row.state}`);
  }
}

function notFound(): ServiceError {
  return new ServiceError("not_found", "Preview not found", {
    detail: `The last ${KEPT} previews are kept. Select the jobs or cases again.`,
  });
}

function hashOf({ kind, action, limits, ids }: Omit<BulkRequest, "cost" | "leftOut" | "by">): string {
  return createHash("sha256")
    .update([kind, action, ...(limits ? [JSON.stringify(limits)] : []), ...ids].join("\n"))
    .digest("base64url")
    .slice(0, 22);
}

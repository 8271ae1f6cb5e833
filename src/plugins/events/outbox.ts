import type { AuditEvent, AuditLog } from "../../core/audit/audit-log.ts";
import type { Actor } from "../../core/audit/caller.ts";
import type { Logger } from "../../core/base/log.ts";
import type { Redactor } from "../../core/base/redactor.ts";
import type { MessageState } from "../../core/delivery/control-system.ts";
import type { DeliveryError } from "../../core/delivery/events.ts";
import type { Store, Transaction } from "../../core/store/store.ts";
import type { MessageIds } from "./message-ids.ts";
import { laneOf, type OutboxRow } from "./outbox-table.ts";
import { Removals } from "./removals.ts";

/** Rows that one transaction of an operator's command changes. */
const BATCH = 200;
/** More than the longest run log: puts the messages of a removed job before those of a later one of its id. */
const BEFORE = 2 ** 32;

export interface NewMessage {
  readonly eventId: string;
  readonly target: string;
  readonly stream: string;
  readonly type: string;
  readonly body: unknown;
}

export interface OutboxParts {
  readonly store: Store;
  readonly redactor: Redactor;
  readonly clock: () => Date;
  readonly ids: MessageIds;
  readonly audit: AuditLog;
  readonly log: Logger;
}

/** Messages on disk, from the change that caused them until they are delivered. */
export class Outbox {
  readonly #parts: OutboxParts;
  readonly #removals: Removals;

  constructor(parts: OutboxParts) {
    this.#parts = parts;
    this.#removals = new Removals(parts.store, parts.log);
  }

  /** Stores a message together with everything else that `tx` writes; resolves with its lane. */
  async insert(tx: Transaction, message: NewMessage): Promise<string> {
    const { eventId, target, stream, type, body } = message;
    await tx.insert("Outbox", {
      id: `${eventId}.${target}`,
      event_id: eventId,
      target,
      stream,
      type,
      state: "waiting",
      attempts: 0,
      error: null,
      status: null,
      created_at: this.#parts.clock().toISOString(),
      failed_at: null,
      seq: await tx.last("Run", stream),
      body: this.#parts.redactor.json(body),
    });
    return laneOf(target, stream);
  }

  /** Lanes with waiting messages. */
  async lanes(): Promise<string[]> {
    const counts = await this.#table.countBy("lane", { joins: "soon" });
    return Object.keys(counts).filter((lane) => lane.includes("|"));
  }

  /**
   * The next messages of a lane. They are read from its beginning each time: a message may be stored, or become
   * visible, after one that follows it.
   */
  async head(lane: string, limit: number): Promise<OutboxRow[]> {
    // One that is removed while the list is on its way may still be in it.
    const delivered = this.#removals.idsOf(lane);
    const { items } = await this.#table.list({
      where: { lane },
      sort: "seq",
      limit: limit + delivered.size,
    });
    return items.filter((row) => !delivered.has(row.id));
  }

  /** Gives each message of a lane that an earlier version stored for all receivers of a target the lane of its own. */
  async split(lane: string, addressOf: (body: unknown) => string): Promise<void> {
    const ids = await this.#table.ids({ where: { lane }, limit: Number.POSITIVE_INFINITY });
    await this.#parts.store.transaction(async (tx) => {
      for (const id of ids) {
        const row = await tx.get("Outbox", id);
        if (row) await tx.change("Outbox", id, () => ({ ...row, target: addressOf(row.body) }));
      }
    });
  }

  /** Inside the transaction that removes a job: its waiting messages come before those of a later job of its id. */
  async detach(tx: Transaction, lane: string): Promise<void> {
    for (const id of await tx.ids("Outbox", "lane", lane))
      await tx.change("Outbox", id, (row) => ({ ...row, seq: (row.seq ?? 0) - BEFORE }));
  }

  /** Removes a delivered message; the write follows soon. */
  delivered(row: OutboxRow): void {
    this.#removals.add(row.id, laneOf(row.target, row.stream));
  }

  /** Resolves with whether delivered messages have been removed from the disk. */
  settle(): Promise<boolean> {
    return this.#removals.settle();
  }

  /** Records a failed attempt; `state: "dead"` makes it a dead letter. */
  async failed(row: OutboxRow, error: DeliveryError, state: MessageState): Promise<void> {
    await this.#parts.store.transaction(async (tx) => {
      if (!(await tx.get("Outbox", row.id))) return;
      await tx.change("Outbox", row.id, (current) => ({
        ...current,
        state,
        attempts: row.attempts + 1,
        error: this.#parts.redactor.text(error.message),
        status: error.status ?? null,
        failed_at: this.#parts.clock().toISOString(),
      }));
    });
  }

  async counts(): Promise<{ waiting: number; dead: number }> {
    const counts = await this.#table.countBy("state");
    return {
      waiting: Math.max(0, (counts.waiting ?? 0) - this.#removals.size),
      dead: counts.dead ?? 0,
    };
  }

  async list(query: { state?: MessageState; limit?: number; skip?: number }) {
    const { items, total } = await this.#table.list({
      where: { state: query.state },
      sort: "-time",
      limit: query.limit ?? 50,
      skip: query.skip ?? 0,
    });
    // Its place in its lane is for nobody outside.
    const shown = items.filter((row) => !this.#removals.has(row.id)).map(({ seq: _, ...row }) => row);
    return { items: shown, total };
  }

  /** Queues dead letters again; resolves with their lanes. */
  async revive(ids: readonly string[] | "all", by: Actor): Promise<string[]> {
    const revived = await this.#eachDead(ids, { by, action: "events.retry" }, async (tx, row) => {
      await tx.change("Outbox", row.id, (current) => ({ ...current, state: "waiting", attempts: 0 }));
    });
    return revived.map(({ target, stream }) => laneOf(target, stream));
  }

  async drop(ids: readonly string[] | "all", by: Actor): Promise<number> {
    const dropped = await this.#eachDead(
      ids,
      { by, action: "events.drop" },
      async (tx, row) => void (await tx.remove("Outbox", row.id)),
    );
    return dropped.length;
  }

  /** Removes the oldest messages of a state that are too many or too old; resolves with how many. */
  async prune(state: MessageState, limits: { most: number; before?: string }): Promise<number> {
    let removed = 0;
    for (;;) {
      const { items, total } = await this.#table.list({ where: { state }, sort: "time", limit: BATCH });
      const surplus = total - limits.most;
      const gone = items.filter(
        (row, at) => at < surplus || (limits.before !== undefined && row.created_at < limits.before),
      );
      if (gone.length === 0) return removed;
      removed += await this.#parts.store.transaction(async (tx) => {
        let count = 0;
        for (const row of gone) if (await tx.remove("Outbox", row.id)) count++;
        return count;
      });
    }
  }

  get #table() {
    return this.#parts.store.table("Outbox");
  }

  /** In batches, each with its line in the audit log. */
  async #eachDead(
    ids: readonly string[] | "all",
    line: Pick<AuditEvent, "by" | "action">,
    change: (tx: Transaction, row: OutboxRow) => Promise<void>,
  ): Promise<OutboxRow[]> {
    const changed: OutboxRow[] = [];
    const some = async (batch: readonly string[]): Promise<void> => {
      const rows = await this.#parts.audit.change(
        async ({ tx }) => {
          const dead: OutboxRow[] = [];
          for (const id of batch) {
            const row = await tx.get("Outbox", id);
            if (row?.state !== "dead") continue;
            await change(tx, row);
            dead.push(row);
          }
          return dead;
        },
        ({ length }) => (length > 0 ? { ...line, after: { events: length } } : undefined),
      );
      changed.push(...rows);
    };
    if (ids !== "all") {
      for (let at = 0; at < ids.length; at += BATCH) await some(ids.slice(at, at + BATCH));
      return changed;
    }
    for (;;) {
      const { items } = await this.#table.list({ where: { state: "dead" }, sort: "time", limit: BATCH });
      if (items.length === 0) return changed;
      await some(items.map((row) => row.id));
    }
  }
}

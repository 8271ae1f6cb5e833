import type { Logger } from "../../core/base/log.ts";
import type { NewEvent } from "../../core/delivery/events.ts";
import type { AttentionItem } from "../../core/models/attention.ts";
import type { Store, Transaction } from "../../core/store/store.ts";
import type { AttentionNotice } from "./attention-table.ts";

/** Milliseconds between two looks, and from what may need a person to a look. */
const EVERY = 60_000;
const SOON = 1000;
/** Milliseconds after which it is noted again that something still needs a person. */
const NOTED = 60_000;
/**
 * Milliseconds without anybody who sees it, after which something is over: instances see different parts, such as the
 * steps that they run, and one that does not see something must not take back what another one has reported.
 */
const GONE = 150_000;

interface NoticeParts {
  readonly store: Store;
  readonly read: () => Promise<readonly AttentionItem[]>;
  /** Stores an event for all receivers, in a transaction. */
  readonly record: (tx: Transaction, event: NewEvent) => Promise<unknown>;
  /** Called once events are stored. */
  readonly wake: () => void;
  readonly clock: () => Date;
  readonly log: Logger;
}

/**
 * Reports what needs a person, once when it begins and once when it is over, whichever instance sees it: the row that
 * says so is stored with the event.
 */
export class AttentionNotices {
  readonly #parts: NoticeParts;
  #timer: NodeJS.Timeout | undefined;
  #soon: NodeJS.Timeout | undefined;
  #looking: Promise<void> = Promise.resolve();

  constructor(parts: NoticeParts) {
    this.#parts = parts;
  }

  /** Looks now, and each minute. */
  start(): void {
    this.#timer = setInterval(() => this.lookSoon(), EVERY).unref();
    this.lookSoon();
  }

  /** Looks in a second, together with what happens until then. */
  lookSoon(): void {
    if (this.#soon || !this.#timer) return;
    this.#soon = setTimeout(() => {
      this.#soon = undefined;
      this.#looking = this.#look().catch((error: unknown) => {
        this.#parts.log.warn("what needs a person could not be reported; it is tried again", { error });
      });
    }, SOON).unref();
  }

  /** Stops looking. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    clearTimeout(this.#soon);
    await this.#looking;
  }

  async #look(): Promise<void> {
    const { store, read, record, wake, clock } = this.#parts;
    const [found, { items: known }] = await Promise.all([
      read(),
      store.table("AttentionNotice").list({ limit: Number.POSITIVE_INFINITY }),
    ]);
    const now = clock();
    const at = now.toISOString();
    const since = (row: AttentionNotice) => now.getTime() - Date.parse(row.seen_at);
    const items = new Map(found.filter(isReported).map((item) => [idOf(item), item]));
    const rows = new Map(known.map((row) => [row.id, row]));
    const raised = [...items].filter(([id]) => !rows.has(id));
    const noted = known.filter((row) => items.has(row.id) && since(row) >= NOTED);
    const over = known.filter((row) => !items.has(row.id) && since(row) >= GONE);
    if (raised.length + noted.length + over.length === 0) return;
    await store.transaction(async (tx) => {
      for (const [id, item] of raised) {
        if (await tx.get("AttentionNotice", id)) continue;
        const { kind, agent, reason: about } = item;
        await tx.insert("AttentionNotice", { id, kind, agent, about, raised_at: at, seen_at: at });
        await record(tx, raisedEvent(item));
      }
      for (const { id } of noted) {
        if (await tx.get("AttentionNotice", id))
          await tx.change("AttentionNotice", id, (row) => ({ ...row, seen_at: at }));
      }
      for (const { id } of over) {
        const row = await tx.get("AttentionNotice", id);
        if (!row || since(row) < GONE) continue;
        await tx.remove("AttentionNotice", id);
        await record(tx, clearedEvent(row, at));
      }
    });
    if (raised.length + over.length > 0) wake();
  }
}

/** Budgets have events of their own, at 80 and at 100 %. */
function isReported({ kind }: AttentionItem): boolean {
  return kind !== "budget";
}

function idOf({ kind, agent, reason }: AttentionItem): string {
  return `${kind}/${agent ?? ""}/${reason ?? ""}`;
}

function raisedEvent({ kind, severity, text, count, agent, reason, since }: AttentionItem): NewEvent {
  return eventOf(agent, { state: "raised", kind, severity, text, count, about: reason, since });
}

function clearedEvent({ kind, agent, about, raised_at }: AttentionNotice, at: string): NewEvent {
  return eventOf(agent, { state: "cleared", kind, about, since: raised_at, cleared_at: at });
}

function eventOf(agent: string | null, details: Record<string, unknown>): NewEvent {
  return {
    source: agent === null ? {} : { agent },
    type: "agent.anomaly",
    object_type: agent === null ? "server" : "agent",
    details: { reason: "attention", agent, ...details },
  };
}

import type { Hooks } from "../hooks.ts";
import type { RunEntry } from "../models/run-entry.ts";
import type { Redactor } from "../redactor.ts";
import type { Store, Transaction } from "../store/store.ts";
import type { Change, Participant } from "./change.ts";
import { scrubbing, scrubChange, scrubEntry } from "./scrub.ts";

/** A run-log entry as it is written; the time is filled in. */
export type RunEntryInput = RunEntry extends infer E
  ? E extends RunEntry
    ? Omit<E, "at"> & { at?: string }
    : never
  : never;

/** One change in the making: reads and writes of a transaction, and what observers will be told of it. */
export interface Unit {
  readonly tx: Transaction;
  /** The same time for everything in this unit, ISO 8601. */
  readonly now: string;
  /** Lets participants write along, and tells observers once it is stored. */
  tell(change: Change): Promise<void>;
  /** Adds a line to a job's run log. */
  record(jobId: string, entry: RunEntryInput): Promise<number>;
}

/** Stores changes, without secrets: participants write in the same transaction, observers are told after it. */
export class Ledger {
  readonly #store: Store;
  readonly #hooks: Hooks;
  readonly #clock: () => Date;
  readonly #redactor: Redactor;
  readonly #participants: Participant[] = [];

  constructor(store: Store, hooks: Hooks, clock: () => Date, redactor: Redactor) {
    this.#redactor = redactor;
    this.#store = store;
    this.#hooks = hooks;
    this.#clock = clock;
  }

  /** Adds a participant; the result takes it away again. */
  join(participant: Participant): () => void {
    this.#participants.push(participant);
    return () => void this.#participants.splice(this.#participants.indexOf(participant), 1);
  }

  async write<T>(work: (unit: Unit) => Promise<T>): Promise<T> {
    let announcements: (() => void)[] = [];
    const result = await this.#store.transaction((tx) => {
      announcements = [];
      return work(this.#unit(tx, announcements));
    });
    for (const announce of announcements) announce();
    return result;
  }

  #unit(tx: Transaction, announcements: (() => void)[]): Unit {
    const now = this.#clock().toISOString();
    return {
      tx: scrubbing(tx, this.#redactor),
      now,
      tell: async (told) => {
        const change = scrubChange(told, this.#redactor);
        for (const participant of this.#participants) await participant(change, tx);
        announcements.push(() => this.#hooks.emit(change.kind, change as never));
      },
      record: async (jobId, input) => {
        const entry = scrubEntry({ at: now, ...input } as RunEntry, this.#redactor);
        const seq = await tx.append("Run", jobId, entry);
        announcements.push(() => this.#hooks.emit("run:entry", { job_id: jobId, seq, entry }));
        return seq;
      },
    };
  }
}

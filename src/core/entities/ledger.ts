import type { MaybePromise } from "../base/maybe-promise.ts";
import type { Redactor } from "../base/redactor.ts";
import type { RunEntry } from "../models/run-entry.ts";
import type { Store, Transaction, TransactionOptions } from "../store/store.ts";
import type { Change, Participant } from "./change.ts";
import type { HookName, Hooks } from "./hooks.ts";
import { Scrub, ScrubbedTransaction } from "./scrub.ts";
import { tellOthers } from "./touched.ts";

/** A run-log entry as it is written; the time is filled in. */
export type RunEntryInput = RunEntry extends infer E
  ? E extends RunEntry
    ? Omit<E, "at"> & { at?: string }
    : never
  : never;

/** A unit of work: reads and writes of a transaction, and the notifications for observers. */
export interface Unit {
  readonly tx: Transaction;
  /** The same time for everything in this unit, ISO 8601. */
  readonly now: string;
  /** Lets participants add writes, which is to be waited for, and notifies observers once it is stored. */
  emit(change: Change): MaybePromise<void>;
  /** Adds a line to a job's run log. */
  record(jobId: string, entry: RunEntryInput): Promise<number>;
  /**
   * Calls `fn` synchronously when this unit is stored, and only then: in the order in which units are stored.
   * `seq` is the number of the last line that the unit has added to a run log.
   */
  afterwards(fn: (seq: number) => void): void;
}

/** What participants have thrown. */
const REFUSALS = new WeakSet<object>();

/** Whether a participant has refused a change with this error. */
export function isRefusal(error: unknown): error is Error {
  return error instanceof Error && REFUSALS.has(error);
}

interface Joined {
  readonly participant: Participant;
  readonly kinds: ReadonlySet<Change["kind"]> | undefined;
}

/** Throws what a participant has thrown. */
function refuse(error: unknown): never {
  if (error instanceof Error) REFUSALS.add(error);
  throw error;
}

/**
 * Stores changes, without secrets: participants write in the same transaction, observers are notified after
 * it.
 */
export class Ledger {
  readonly #store: Store;
  readonly #hooks: Hooks;
  readonly #clock: () => Date;
  readonly #redactor: Redactor;
  readonly #participants: Joined[] = [];
  /** The last requested time, and its stored form. */
  #time = Number.NaN;
  #timestamp = "";

  constructor(store: Store, hooks: Hooks, clock: () => Date, redactor: Redactor) {
    this.#redactor = redactor;
    this.#store = store;
    this.#hooks = hooks;
    this.#clock = clock;
  }

  /** Adds a participant in changes of these kinds, or of all; the result removes it. */
  join(participant: Participant, kinds?: readonly Change["kind"][]): () => void {
    const joined = { participant, kinds: kinds && new Set(kinds) };
    this.#participants.push(joined);
    return () => void this.#participants.splice(this.#participants.indexOf(joined), 1);
  }

  /** The JSON of a value as it is stored: without secrets. */
  toJson(value: unknown): string {
    const json = JSON.stringify(value);
    return this.#redactor.finds(json) ? JSON.stringify(this.#redactor.json(value)) : json;
  }

  /** The time, ISO 8601. Many calls fall into one millisecond: it is formatted once. */
  now(): string {
    const date = this.#clock();
    const time = date.getTime();
    if (time !== this.#time) {
      this.#timestamp = date.toISOString();
      this.#time = time;
    }
    return this.#timestamp;
  }

  /**
   * Stores what `work` writes, as one. The store may discard all that `work` did and run it again with another unit:
   * any other effect must wait until the unit is stored.
   */
  write<T>(work: (unit: Unit) => Promise<T>, options?: TransactionOptions): Promise<T> {
    // The last one is the one that counts.
    let unit: OpenUnit | undefined;
    const begin = (tx: Transaction): Promise<T> => {
      unit = new OpenUnit(tx, {
        scrub: new Scrub(this.#redactor),
        now: this.now(),
        participants: this.#participants,
      });
      return work(unit);
    };
    return this.#store.transaction(begin, options).then((result) => {
      unit?.announce(this.#hooks);
      if (unit && this.#store.isShared) tellOthers(this.#store, unit.announcements);
      return result;
    });
  }
}

/** Notifications for observers. */
interface Announcement {
  readonly name: HookName;
  readonly payload: unknown;
}

class OpenUnit implements Unit {
  readonly now: string;
  #tx: Transaction | undefined;
  readonly #raw: Transaction;
  readonly #scrub: Scrub;
  readonly #participants: readonly Joined[];
  readonly #announcements: Announcement[] = [];
  #afterwards: ((seq: number) => void)[] | undefined;
  #seq = 0;

  constructor(tx: Transaction, parts: { scrub: Scrub; now: string; participants: readonly Joined[] }) {
    this.now = parts.now;
    this.#raw = tx;
    this.#scrub = parts.scrub;
    this.#participants = parts.participants;
  }

  get tx(): Transaction {
    this.#tx ??= new ScrubbedTransaction(this.#raw, this.#scrub);
    return this.#tx;
  }

  emit(told: Change): MaybePromise<void> {
    const change = this.#scrub.change(told);
    const announcement = { name: change.kind, payload: change };
    const asked = this.#participants.length === 0 ? undefined : this.#ask(change, 0);
    if (asked) return asked.then(() => void this.#announcements.push(announcement));
    this.#announcements.push(announcement);
  }

  /** Lets participants add writes, from one on: most have none to add, and are not waited for. */
  #ask(change: Change, from: number): MaybePromise<void> {
    try {
      for (let at = from; at < this.#participants.length; at++) {
        const { participant, kinds } = this.#participants[at]!;
        const written = !kinds || kinds.has(change.kind) ? participant(change, this.#raw) : undefined;
        if (written) return written.then(() => this.#ask(change, at + 1), refuse);
      }
    } catch (error) {
      refuse(error);
    }
  }

  record(jobId: string, input: RunEntryInput): Promise<number> {
    const dated = input.at === undefined ? { at: this.now, ...input } : input;
    const { entry, json } = this.#scrub.entry(dated as RunEntry);
    return this.#raw.append("Run", jobId, entry, json).then((seq) => {
      this.#seq = seq;
      this.#announcements.push({ name: "run:entry", payload: { job_id: jobId, seq, entry } });
      return seq;
    });
  }

  afterwards(fn: (seq: number) => void): void {
    this.#afterwards ??= [];
    this.#afterwards.push(fn);
  }

  get announcements(): readonly Announcement[] {
    return this.#announcements;
  }

  announce(hooks: Hooks): void {
    for (const fn of this.#afterwards ?? []) fn(this.#seq);
    for (const { name, payload } of this.#announcements) hooks.emit(name, payload as never);
  }
}

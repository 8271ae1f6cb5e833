import { crc32 } from "node:zlib";
import type { ServiceError } from "../../base/errors.ts";
import type { Remote } from "../json/remote.ts";
import type { PinnedFile } from "../json/take-snapshot.ts";
import type { Timers } from "../json/timers.ts";
import type { IndexValue, ShippingHealth, StoreLogger } from "../store.ts";
import type { Pinned } from "./base-writer.ts";
import { BucketJournal } from "./bucket-journal.ts";
import { type Base, baseContent, type Chain, type EntryNote } from "./chain.ts";
import type { Position, ShippingRecord } from "./shipping-record.ts";

/** Milliseconds that groups wait for others, so that they share an object. */
const LINGER = 700;
/** Bytes of groups that share an object. */
const OBJECT = 4 * 1024 * 1024;
/** Bytes of groups that wait in memory; with more, the files of the store are shipped instead. */
const MEMORY = 16 * 1024 * 1024;
/** Milliseconds before another attempt. */
const PAUSE = 1000;
/** Milliseconds that what is left gets while the store closes. */
const LAST_CHANCE = 5000;

export interface ShipperOptions {
  readonly chain: Chain;
  readonly record: ShippingRecord;
  readonly timers: Timers;
  readonly log: StoreLogger;
  readonly store: string;
  /** What the next group waits for. */
  readonly room?: () => Promise<void> | undefined;
  /** Called after each group that the storage has. */
  readonly onGroup: (bytes: number) => void;
  /** What the start has restored. */
  readonly restored: ShippingHealth["restored"];
  readonly setAside: () => readonly string[];
  readonly at: string | undefined;
  /** Milliseconds that groups wait for others. @default 700 */
  readonly linger?: number | undefined;
  /** Bytes of groups that wait in memory. @default 16 MiB */
  readonly memory?: number | undefined;
}

/** What ships the files of the store. */
export interface Files {
  /** The files between two groups, the number of the last write, and what `note` returns at that moment. */
  readonly pin: <T>(note: () => T) => Promise<{ files: PinnedFile[]; last: number; noted: T }>;
  readonly replace: (pinned: Pinned, append: (base: Base) => Promise<void>) => Promise<void>;
}

interface Group {
  readonly bytes: Buffer;
  readonly last: number;
  /** When it was stored: by the store's timers, and by the clock. */
  readonly since: number;
  readonly at: number;
}

/** Something that waits for everything up to a write to be in the storage. */
interface Cut {
  readonly last: number;
  readonly done: (slot: number) => void;
  readonly fail: (error: Error) => void;
}

interface Shipment {
  readonly content: Buffer;
  readonly last: number;
  readonly note: EntryNote & { readonly at: string };
}

/**
 * Ships the groups that are on disk to a storage, some at a time. When there are too many, because the storage did not
 * respond or the folder was there before, it ships the files of the store instead.
 */
export class Shipper implements Remote {
  readonly #options: ShipperOptions;
  readonly #journal: BucketJournal;
  #files: Files | undefined;
  /** Groups that follow the last shipment, unless some were dropped. */
  #queue: Group[] = [];
  #queued = 0;
  /** Whether the queue has everything that is not in the storage. */
  #isWhole = true;
  /** When the oldest group was stored that is neither in the storage nor in the queue. */
  #since: number | undefined;
  #left = { groups: 0, bytes: 0 };
  #cuts: Cut[] = [];
  #shipsFiles = false;
  /** Number of the last write that the storage has. */
  #shipped = 0;
  #at: string | undefined;
  #running: Promise<void> | undefined;
  #wake: (() => void) | undefined;
  /** What keeps it from shipping, other than the storage. */
  #failure: Error | undefined;
  #until = Number.POSITIVE_INFINITY;
  #isOver = false;

  constructor(options: ShipperOptions) {
    this.#options = options;
    this.#at = options.at;
    const consequence = "writes are on this disk only until it does";
    this.#journal = new BucketJournal({ ...options, consequence });
  }

  get isLost(): boolean {
    return this.#journal.isLost;
  }

  check(): Promise<void> {
    return this.#journal.check();
  }

  /** Whether the storage has everything. */
  get isDone(): boolean {
    return this.#left.groups === 0 && this.#isWhole && !this.isLost;
  }

  /** Begins. `shipped` is the last write that the storage has, `last` that on the disk. */
  start(files: Files, { shipped, last }: { shipped: number; last: number }): void {
    this.#files = files;
    this.#shipped = shipped;
    if (last > this.#shipped) {
      this.#isWhole = false;
      this.#left = { groups: 1, bytes: 0 };
      this.#since = this.#now;
    }
    this.#go();
  }

  stored(group: Uint8Array, last: number): void {
    const lost = this.#journal.lost;
    if (lost !== undefined) throw lost;
    this.#left = { groups: this.#left.groups + 1, bytes: this.#left.bytes + group.length };
    this.#queue.push({ bytes: Buffer.from(group), last, since: this.#now, at: Date.now() });
    this.#queued += group.length;
    if (this.#queued > (this.#options.memory ?? MEMORY)) this.#drop();
    if (this.#queued > OBJECT / 4) this.#wake?.();
    this.#go();
  }

  refusal(): ServiceError | undefined {
    return this.#journal.lost;
  }

  details(): Readonly<Record<string, IndexValue>> {
    return this.#journal.details();
  }

  shipping(): ShippingHealth {
    const since = this.#since ?? this.#queue[0]?.since;
    const error = this.#journal.refusal() ?? this.#failure;
    return {
      lag: since === undefined ? 0 : Math.max(0, this.#now - since) / 1000,
      ...this.#left,
      last_at: this.#at ?? null,
      error: error?.message ?? null,
      restored: this.#options.restored,
      set_aside: this.#options.setAside(),
    };
  }

  /** Resolves with the slot up to which the storage has exactly what the disk has up to the write `last`, the newest one. */
  upTo(last: number): Promise<{ slot: number; at: string | undefined }> {
    const { chain } = this.#options;
    if (this.isDone) return Promise.resolve({ slot: chain.slot, at: this.#at });
    const whole = new Promise<{ slot: number; at: string | undefined }>((resolve, reject) => {
      this.#cuts.push({ last, done: (slot) => resolve({ slot, at: this.#at }), fail: reject });
      if (this.#isWhole && !this.#shipsFiles && this.#hasWork) this.#wake?.();
      else this.#failCuts();
    });
    // Nobody may be waiting yet.
    whole.catch(() => {});
    return whole;
  }

  /** Ships what is left, for a few seconds at most. */
  async finish(): Promise<void> {
    this.#until = this.#now + LAST_CHANCE;
    this.#journal.closing();
    this.#wake?.();
    this.#go();
    const { timers, log } = this.#options;
    const end = new Promise<void>((resolve) => void timers.after(LAST_CHANCE, resolve));
    await Promise.race([this.#running, end]);
    this.#isOver = true;
    this.#wake?.();
    this.#failCuts();
    if (!this.isDone && !this.isLost)
      log.warn("Store: not everything is in the storage; the next start on this disk ships it", this.#left);
  }

  get #now(): number {
    return this.#options.timers.now();
  }

  get #hasWork(): boolean {
    return !this.isDone && !this.isLost && !this.#isOver && this.#now < this.#until;
  }

  #go(): void {
    if (this.#files === undefined || this.#running !== undefined || !this.#hasWork) return;
    this.#running = this.#run().finally(() => {
      this.#running = undefined;
      // A group may have come while it ended.
      this.#go();
    });
  }

  async #run(): Promise<void> {
    await this.#pause(this.#options.linger ?? LINGER);
    while (this.#hasWork) {
      try {
        this.#shipsFiles = !this.#isWhole;
        await (this.#shipsFiles ? this.#shipFiles() : this.#shipGroups());
        this.#failure = undefined;
      } catch (error) {
        if (this.isLost) break;
        this.#report(error);
        await this.#pause(PAUSE);
        continue;
      } finally {
        this.#shipsFiles = false;
      }
      if (this.#hasWork) await this.#pause(this.#options.linger ?? LINGER);
    }
    if (!this.isDone) this.#failCuts();
  }

  /** Waits, unless it is to end or much is waiting. */
  #pause(milliseconds: number): Promise<void> {
    const isUrgent = this.#until !== Number.POSITIVE_INFINITY || this.#cuts.length > 0;
    if (this.#isOver || (isUrgent && this.#failure === undefined)) return Promise.resolve();
    return new Promise((resolve) => {
      const cancel = this.#options.timers.after(milliseconds, () => this.#wake?.());
      this.#wake = () => {
        this.#wake = undefined;
        cancel();
        resolve();
      };
    });
  }

  async #shipGroups(): Promise<void> {
    const groups = this.#nextGroups();
    const last = groups.at(-1)!.last;
    const content = Buffer.concat(groups.map(({ bytes }) => bytes));
    const at = groups.length < this.#queue.length ? groups.at(-1)!.at : Date.now();
    await this.#send({ content, last, note: { at: new Date(at).toISOString() } }, () => {
      // What came meanwhile may have been dropped, and these with it.
      if (this.#queue[0] === groups[0]) {
        this.#queue.splice(0, groups.length);
        this.#queued -= content.length;
      }
      this.#left = {
        groups: this.#left.groups - groups.length,
        bytes: this.#left.bytes - content.length,
      };
    });
  }

  /** The groups at the head of the queue that share an object: none beyond the next cut. */
  #nextGroups(): Group[] {
    const end = this.#cuts[0]?.last ?? Number.POSITIVE_INFINITY;
    const groups: Group[] = [];
    let bytes = 0;
    for (const group of this.#queue) {
      if (groups.length > 0 && (group.last > end || bytes + group.bytes.length > OBJECT)) break;
      groups.push(group);
      bytes += group.bytes.length;
    }
    return groups;
  }

  /** Ships the files as they are, which replace everything in the storage. */
  async #shipFiles(): Promise<void> {
    this.#failCuts();
    const pinned = await this.#files!.pin(() => {
      const { groups, bytes } = this.#left;
      this.#queue = [];
      this.#queued = 0;
      this.#isWhole = true;
      const since = this.#since;
      return { groups, bytes, since, at: new Date().toISOString() };
    });
    const { groups, bytes, since, at } = pinned.noted;
    const { chain } = this.#options;
    try {
      await this.#files!.replace({ slot: chain.slot + 1, files: pinned.files, at }, (base) =>
        this.#send({ content: baseContent(base), last: pinned.last, note: { kind: "base", at } }, () => {
          this.#left = { groups: this.#left.groups - groups, bytes: this.#left.bytes - bytes };
          this.#since = this.#isWhole ? undefined : this.#since;
        }),
      );
    } catch (error) {
      // Groups that came since follow nothing that the storage has.
      if (this.#shipped < pinned.last) {
        this.#drop();
        this.#since = since;
      }
      throw error;
    }
  }

  async #send({ content, last, note }: Shipment, done: () => void): Promise<void> {
    const { chain, record, store } = this.#options;
    // The folder may have another process by now.
    if (this.#isOver) throw new Error("the store was closed");
    const before: Position = { slot: chain.slot, last: this.#shipped };
    const sent = { slot: chain.slot + 1, last, crc: crc32(content) };
    await record.write({ store, shipped: before, sent });
    await this.#journal.append(content, note);
    this.#shipped = last;
    this.#at = note.at;
    done();
    if (this.#isOver) return;
    this.#fulfillCuts();
    // Before a pause that may be long: what the storage has is known without asking it.
    if (this.#left.groups === 0) await record.write({ store, shipped: { slot: chain.slot, last } });
  }

  #drop(): void {
    this.#since ??= this.#queue[0]?.since;
    this.#queue = [];
    this.#queued = 0;
    this.#isWhole = false;
    this.#failCuts();
  }

  #fulfillCuts(): void {
    const slot = this.#options.chain.slot;
    while (this.#cuts[0] !== undefined && this.#cuts[0].last <= this.#shipped) {
      const cut = this.#cuts.shift()!;
      if (cut.last === this.#shipped) cut.done(slot);
      else cut.fail(tooMuch());
    }
  }

  #failCuts(): void {
    for (const { fail } of this.#cuts.splice(0)) fail(tooMuch());
  }

  #report(error: unknown): void {
    if (this.#failure === undefined)
      this.#options.log.error("Store: writes could not be shipped; they are on this disk, and retried", {
        error: String(error),
      });
    this.#failure = error instanceof Error ? error : new Error(String(error));
  }
}

function tooMuch(): Error {
  return new Error("more has to be shipped first");
}

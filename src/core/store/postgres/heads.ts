import type { Body } from "../engine/body.ts";
import type { IndexRecord } from "../engine/table-index.ts";
import type { TableLayout } from "./table-layout.ts";

/** What writes a version. */
export interface Writer {
  readonly state: "open" | "queued" | "stored" | "failed";
}

/** One version of an entity, or its absence. */
export interface EntityHead {
  readonly key: string;
  readonly layout: TableLayout;
  readonly id: string;
  /** Missing where there is no entity. */
  readonly body: Body | undefined;
  /** The version in the database; `null` where there is no entity; `undefined` until it is sent. */
  version: string | null | undefined;
  /** What writes it; missing if it was read, or is in the database. */
  by: Writer | undefined;
  /** Its index values, once they are known. */
  record?: IndexRecord;
}

/** The end of a log's key. */
export interface LogHead {
  readonly key: string;
  readonly log: string;
  readonly id: string;
  /** Number of the last entry. */
  readonly last: number;
  by: Writer | undefined;
}

export type Head = EntityHead | LogHead;

/** Whether a head is not in the database yet. */
export function isPending({ by }: Head): boolean {
  return by !== undefined && by.state !== "stored";
}

/** What a process knows of the database: the writes that are on their way, and what it has written or read lately. */
export class Heads<H extends Head> {
  readonly #pending = new Map<string, H>();
  /** In the order of their last use. */
  readonly #kept = new Map<string, H>();
  readonly #limits: { readonly count: number; readonly size: number };
  readonly #sizeOf: (head: H) => number;
  #size = 0;

  /** `size` is the limit of what `sizeOf` gives for all that is kept. */
  constructor(limits: { count: number; size: number }, sizeOf: (head: H) => number) {
    this.#limits = limits;
    this.#sizeOf = sizeOf;
  }

  pending(key: string): H | undefined {
    return this.#pending.get(key);
  }

  kept(key: string): H | undefined {
    const head = this.#kept.get(key);
    if (head === undefined) return undefined;
    this.#kept.delete(key);
    this.#kept.set(key, head);
    return head;
  }

  /** The newest one. */
  newest(key: string): H | undefined {
    return this.#pending.get(key) ?? this.#kept.get(key);
  }

  add(head: H): void {
    this.#pending.set(head.key, head);
  }

  /** The version is in the database now. */
  settle(head: H): void {
    // A transaction knows the versions that it has read: each would keep all before it.
    head.by = undefined;
    if (this.#pending.get(head.key) === head) this.#pending.delete(head.key);
    this.keep(head);
  }

  /** The version will never be in the database. */
  abandon(head: H): void {
    if (this.#pending.get(head.key) === head) this.#pending.delete(head.key);
  }

  keep(head: H): void {
    this.forget(head.key);
    this.#kept.set(head.key, head);
    this.#size += this.#sizeOf(head);
    for (const [key] of this.#kept) {
      if (this.#kept.size <= this.#limits.count && this.#size <= this.#limits.size) return;
      this.forget(key);
    }
  }

  forget(key: string): void {
    const head = this.#kept.get(key);
    if (head === undefined) return;
    this.#size -= this.#sizeOf(head);
    this.#kept.delete(key);
  }

  forgetAll(): void {
    this.#kept.clear();
    this.#size = 0;
  }
}

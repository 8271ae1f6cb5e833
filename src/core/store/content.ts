import { createHash } from "node:crypto";
import { storageError } from "./storage-error.ts";

/** An entity of a table, or an entry of a log, as it is stored. */
export interface ContentRow {
  /** Id of the entity, or key of the entry. */
  readonly id: string;
  /** Number of the entry, from 1 within its key. */
  readonly number?: number;
  /** The JSON as it was written. */
  readonly body: string;
}

/** A table or a log. */
export interface ContentPart {
  readonly name: string;
  readonly isLog: boolean;
  /** Its rows in batches: entities by id, entries by key and number. Each call reads them again. */
  rows(): AsyncIterable<readonly ContentRow[]>;
}

/**
 * All that a store has, whatever keeps it, as of one moment: what exports, backups and moves are made of. Tables of
 * plugins that are missing are included.
 */
export interface Content {
  readonly parts: readonly ContentPart[];
}

/** What a part comes to. Two parts with the same rows have the same checksum, whatever the order of their ids. */
export interface PartSum {
  readonly name: string;
  readonly isLog: boolean;
  /** Number of entities, or of keys of a log. */
  readonly ids: number;
  /** Number of entities, or of entries. */
  readonly rows: number;
  /** 32 hexadecimal digits. */
  readonly checksum: string;
}

/**
 * A content whose rows are counted and checked while they are read: `sums` has those of the parts that were read to
 * their end. Reading rejects where an entry has not the number after that of the entry before it.
 */
export function counted(content: Content): { content: Content; sums: PartSum[] } {
  const sums: PartSum[] = [];
  const parts = content.parts.map((part) => ({
    ...part,
    async *rows() {
      const counter = new Counter(part);
      for await (const batch of part.rows()) {
        counter.add(batch);
        yield batch;
      }
      sums.push(counter.sum());
    },
  }));
  return { content: { parts }, sums };
}

/** Reads all of a content and counts it. */
export async function sumsOf(given: Content): Promise<PartSum[]> {
  const { content, sums } = counted(given);
  for (const part of content.parts) for await (const _ of part.rows());
  return sums;
}

/** A content of which each row is parsed while it is read: rejects where one is not the JSON of its entity or entry. */
export function parsed({ parts }: Content): Content {
  const check = ({ name, isLog }: ContentPart, { id, body }: ContentRow) => {
    try {
      const value = JSON.parse(body) as { id?: unknown } | null;
      if (isLog || value?.id === id) return;
    } catch {
      // Reported below.
    }
    throw storageError(
      `${name} "${id}" is damaged`,
      "Restore a backup, or an earlier state of the database.",
    );
  };
  return {
    parts: parts.map((part) => ({
      ...part,
      async *rows() {
        for await (const batch of part.rows()) {
          for (const row of batch) check(part, row);
          yield batch;
        }
      },
    })),
  };
}

const MODULUS = 1n << 128n;

class Counter {
  readonly #part: ContentPart;
  #ids = 0;
  #rows = 0;
  #total = 0n;
  #id: string | undefined;
  #number = 0;

  constructor(part: ContentPart) {
    this.#part = part;
  }

  add(batch: readonly ContentRow[]): void {
    for (const { id, number, body } of batch) {
      if (number === undefined || id !== this.#id) {
        this.#ids++;
        this.#number = 0;
      }
      this.#id = id;
      if (number !== undefined && number !== ++this.#number) {
        throw storageError(
          `Entry ${this.#number} of log ${this.#part.name} "${id}" is missing`,
          "Restore a backup, or an earlier state of the database.",
        );
      }
      this.#rows++;
      const hash = createHash("sha256")
        .update(JSON.stringify([id, number]), "utf8")
        .update("\n")
        .update(body);
      this.#total += BigInt(`0x${hash.digest("hex").slice(0, 32)}`);
    }
    this.#total %= MODULUS;
  }

  sum(): PartSum {
    const checksum = this.#total.toString(16).padStart(32, "0");
    const { name, isLog } = this.#part;
    return { name, isLog, ids: this.#ids, rows: this.#rows, checksum };
  }
}

/** What differs between two stores, for people; `undefined` where nothing does. Empty parts count as absent. */
export function differenceOf(one: readonly PartSum[], other: readonly PartSum[]): string | undefined {
  const theirs = new Map(other.filter(({ rows }) => rows > 0).map((sum) => [keyOf(sum), sum]));
  for (const sum of one) {
    if (sum.rows === 0) continue;
    const its = theirs.get(keyOf(sum));
    theirs.delete(keyOf(sum));
    if (its?.rows !== sum.rows) return `${sum.name}: ${sum.rows} and ${its?.rows ?? 0}`;
    if (its.checksum !== sum.checksum)
      return `${sum.name}: the checksums ${sum.checksum} and ${its.checksum}`;
  }
  const [more] = theirs.values();
  return more && `${more.name}: 0 and ${more.rows}`;
}

function keyOf({ name, isLog }: PartSum): string {
  return `${isLog ? "log" : "table"} ${name}`;
}

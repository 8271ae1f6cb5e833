import type { Removals } from "./removals.ts";
import type { SharedFile } from "./shared-file.ts";

/** One of the files of lines that make up the store. */
export interface Segment {
  /** Number in memory, from 1; locators name it. */
  readonly id: number;
  /**
   * A journal has the lines of all tables as they were committed; a table file has those of one table, after
   * compaction.
   */
  readonly kind: "journal" | "table";
  name: string;
  file: SharedFile;
  /** Bytes that count; remains of a failed write may follow them. */
  size: number;
  /** Bytes of lines that the index points to. */
  live: number;
  /** Bytes of lines, live or not, without an index of the service's version: a start parses their bodies. */
  bare: number;
  /** Whether lines have an index of another version than the service's. */
  isOutdated: boolean;
  readonly removals: Removals;
  /** Lowest number of a write in it: a removal matters as long as anything older exists. */
  from: number;
}

/** The segments of a store by number. */
export type Segments = ReadonlyMap<number, Segment>;

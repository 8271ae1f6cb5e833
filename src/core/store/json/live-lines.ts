import type { StoreTable } from "../engine/backend.ts";
import type { Contents } from "./contents.ts";
import type { LineIndex, LineNames } from "./line.ts";
import type { Locator } from "./locators.ts";
import { Pauses } from "./pauses.ts";

/** Number of slots, entries or keys that are checked in one go: some milliseconds if all of them match. */
const SLICE = 10_000;

/** A line that the index points to: the newest version of an entity, or an entry of a log. */
export interface LiveLine {
  readonly at: Locator;
  /** Whether the index still points to it. */
  isLive(): boolean;
  /** Whether the line is of that entity or entry. */
  isOf(names: LineNames): boolean;
  /** The version of an entity's index, if the service knows its table. */
  readonly version: string | undefined;
  /** The current index of an entity, if the service knows its table. */
  index(): LineIndex | undefined;
  /** Points the index to a copy of it. */
  move(to: Locator): void;
}

/**
 * Visits what the index points to in some files, by scanning the index. Commits may continue in the meantime
 * as long as none goes into these files: a line may become outdated after it was visited, but none can become
 * current again.
 */
export async function findLiveLines(
  contents: Contents,
  segments: ReadonlySet<number>,
  visit: (line: LiveLine) => void,
): Promise<void> {
  const pauses = new Pauses(SLICE);
  for (const table of contents.tables.values()) {
    const locators = contents.locatorsOf(table);
    for (let from = 0; from < locators.capacity; from += SLICE) {
      for (const slot of locators.slotsIn(segments, from, from + SLICE))
        visit(new LiveEntity(contents, { table, slot, at: locators.get(slot) }));
      if (pauses.isDue(Math.min(SLICE, locators.capacity - from))) await pauses.take();
    }
  }
  const oldest = Math.min(...segments);
  for (const log of contents.logNames()) {
    for (const [key, entries] of contents.keysOf(log)) {
      // Most keys are of jobs that ended long ago.
      const count = entries.newest < oldest ? 0 : entries.count;
      for (let from = 1; from <= count; from += SLICE) {
        for (const number of entries.numbersIn(segments, from, from + SLICE))
          visit(new LiveEntry(contents, { log, key, number, at: entries.get(number) }));
        if (pauses.isDue(Math.min(SLICE, count - from))) await pauses.take();
      }
      if (pauses.isDue(1)) await pauses.take();
    }
  }
}

class LiveEntity implements LiveLine {
  readonly #contents: Contents;
  readonly #table: StoreTable;
  readonly #slot: number;
  readonly #id: string | undefined;
  readonly at: Locator;

  constructor(contents: Contents, { table, slot, at }: { table: StoreTable; slot: number; at: Locator }) {
    this.#contents = contents;
    this.#table = table;
    this.#slot = slot;
    this.#id = table.index.idOf(slot);
    this.at = at;
  }

  isLive(): boolean {
    return this.#contents.locatorsOf(this.#table).isAt(this.#slot, this.at.segment, this.at.offset);
  }

  isOf({ t, id, i }: LineNames): boolean {
    return t === this.#table.name && id === this.#id && i === undefined;
  }

  get version(): string | undefined {
    return this.#contents.versionOf(this.#table);
  }

  index(): LineIndex | undefined {
    const { version } = this;
    return version === undefined ? undefined : { version, record: this.#table.index.recordOf(this.#slot) };
  }

  move(to: Locator): void {
    this.#contents.moveEntity(this.#table, this.#slot, this.at, to);
  }
}

class LiveEntry implements LiveLine {
  readonly #contents: Contents;
  readonly #log: string;
  readonly #key: string;
  readonly #number: number;
  readonly at: Locator;
  readonly version = undefined;

  constructor(
    contents: Contents,
    { log, key, number, at }: { log: string; key: string; number: number; at: Locator },
  ) {
    this.#contents = contents;
    this.#log = log;
    this.#key = key;
    this.#number = number;
    this.at = at;
  }

  isLive(): boolean {
    const entries = this.#contents.entriesOf(this.#log, this.#key);
    return entries?.isAt(this.#number, this.at.segment, this.at.offset) === true;
  }

  isOf({ t, id, i }: LineNames): boolean {
    return t === this.#log && id === this.#key && i === this.#number;
  }

  index(): undefined {}

  move(to: Locator): void {
    const entry = { key: this.#key, number: this.#number };
    this.#contents.moveEntry(this.#log, entry, this.at, to);
  }
}

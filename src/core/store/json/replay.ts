import type { StoreTable } from "../engine/backend.ts";
import type { IndexRecord } from "../engine/table-index.ts";
import type { LogPart } from "./checkpoint-file.ts";
import type { Contents } from "./contents.ts";
import { type LineHeader, readBody } from "./line.ts";
import type { Locators } from "./locators.ts";
import { LogReplay } from "./log-replay.ts";
import type { StoredLine } from "./read-segment.ts";
import { isRemoval } from "./removals.ts";

/** The most lines whose index values are computed later: an entity that changes often mostly has a newer one by then. */
const MOST_BARE = 64;

interface TableReplay {
  readonly table: StoreTable;
  readonly version: string | undefined;
  /** Locations of the newest lines, and the numbers of their writes. */
  readonly locators: Locators;
  /** Number of the newest removal of missing ids. */
  readonly removed: Map<string, number>;
}

/** Builds the index from lines in any order: for each entity the highest number wins. */
export class Replay {
  readonly #contents: Contents;
  readonly #tables = new Map<string, TableReplay>();
  readonly #logs = new LogReplay();
  /** The newest lines of entities without index values, by table and id: the one that changed last is the last. */
  readonly #bare = new Map<string, StoredLine>();

  constructor(contents: Contents) {
    this.#contents = contents;
  }

  apply(line: StoredLine): void {
    const { header, at } = line;
    if (header.i !== undefined) {
      this.#logs.add(header, at);
      return;
    }
    const found = this.#tableOf(header.t);
    if (isRemoval(header) || hasIndex(header, found)) this.#apply(line, found);
    else this.#putOff(line);
  }

  /** Keeps a line without index values for later. */
  #putOff({ header, at, bytes }: StoredLine): void {
    const key = `${header.t}\n${header.id}`;
    const before = this.#bare.get(key);
    if (before && before.header.s > header.s) return;
    this.#bare.delete(key);
    this.#bare.set(key, { header, at, bytes: Buffer.from(bytes) });
    if (this.#bare.size <= MOST_BARE) return;
    const [oldest, line] = this.#bare.entries().next().value!;
    this.#bare.delete(oldest);
    this.#apply(line, this.#tableOf(line.header.t));
  }

  /** Applies the lines that were kept for later: then the index has all that was read. */
  settle(): void {
    for (const line of this.#bare.values()) this.#apply(line, this.#tableOf(line.header.t));
    this.#bare.clear();
  }

  #apply({ header, at, bytes }: StoredLine, found: TableReplay): void {
    const { table, locators, removed } = found;
    const slot = table.index.slotOf(header.id);
    const known = slot === undefined ? (removed.get(header.id) ?? 0) : locators.seqOf(slot);
    if (header.s < known) return;
    if (isRemoval(header)) {
      this.#contents.remove(table, header.id);
      removed.set(header.id, header.s);
      return;
    }
    const isIndexed = hasIndex(header, found);
    const record = isIndexed ? { values: header.ix, text: header.x } : indexAgain(table, bytes);
    if (!isIndexed && found.version !== undefined)
      this.#contents.countBare(at, { isOutdated: header.v !== undefined });
    this.#contents.put(table, { id: header.id, record, slot }, at, header.s);
    if (slot === undefined) removed.delete(header.id);
  }

  /** Starts with the entries of a part of a checkpoint. */
  loadLog(part: LogPart, segmentOf: readonly number[]): void {
    this.#logs.load(part, segmentOf);
  }

  finish(): void {
    this.settle();
    this.#logs.finish(this.#contents);
    // Created now, so that the first list does not wait for it.
    for (const { index } of this.#contents.tables.values())
      for (const field of index.spec.sorted) index.order(field);
  }

  #tableOf(name: string): TableReplay {
    const known = this.#tables.get(name);
    if (known !== undefined) return known;
    const table = this.#contents.tableOf(name);
    const locators = this.#contents.locatorsOf(table);
    const version = this.#contents.versionOf(table);
    const replay = { table, version, locators, removed: new Map<string, number>() };
    this.#tables.set(name, replay);
    return replay;
  }
}

/** Whether a line has the index values that its table has now. */
function hasIndex(
  header: LineHeader,
  { version }: TableReplay,
): header is LineHeader & Required<Pick<LineHeader, "x" | "ix">> {
  const { v, x, ix } = header;
  return ix !== undefined && x !== undefined && v === version;
}

/** For a line without index values, or with those of another version of the table. */
function indexAgain({ spec }: StoreTable, line: Buffer): IndexRecord {
  const entity = JSON.parse(readBody(line)) as { id: string };
  return { values: spec.index(entity), text: spec.text?.(entity) ?? "" };
}

import type { StoreTable } from "../engine/backend.ts";
import type { IndexRecord } from "../engine/table-index.ts";
import type { LogPart } from "./checkpoint-file.ts";
import type { Contents } from "./contents.ts";
import { readBody } from "./line.ts";
import type { Locators } from "./locators.ts";
import { LogReplay } from "./log-replay.ts";
import type { StoredLine } from "./read-segment.ts";
import { isRemoval } from "./removals.ts";

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

  constructor(contents: Contents) {
    this.#contents = contents;
  }

  apply(line: StoredLine): void {
    const { header, at } = line;
    if (header.i !== undefined) {
      this.#logs.add(header, at);
      return;
    }
    const { table, version, locators, removed } = this.#tableOf(header.t);
    const slot = table.index.slotOf(header.id);
    const known = slot === undefined ? (removed.get(header.id) ?? 0) : locators.seqOf(slot);
    if (header.s < known) return;
    if (isRemoval(header)) {
      this.#contents.remove(table, header.id);
      removed.set(header.id, header.s);
      return;
    }
    const { v, x: text, ix: values } = header;
    const hasIndex = values !== undefined && text !== undefined && v === version;
    const record = hasIndex ? { values, text } : indexAgain(table, line.bytes);
    if (!hasIndex && version !== undefined) this.#contents.countBare(at, { isOutdated: v !== undefined });
    this.#contents.put(table, { id: header.id, record, slot }, at, header.s);
    if (slot === undefined) removed.delete(header.id);
  }

  /** Starts with the entries of a part of a checkpoint. */
  loadLog(part: LogPart, segmentOf: readonly number[]): void {
    this.#logs.load(part, segmentOf);
  }

  finish(): void {
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

/** For a line without index values, or with those of another version of the table. */
function indexAgain({ spec }: StoreTable, line: Buffer): IndexRecord {
  const entity = JSON.parse(readBody(line)) as { id: string };
  return { values: spec.index(entity), text: spec.text?.(entity) ?? "" };
}

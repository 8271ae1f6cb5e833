import type { StoreTable } from "../backend.ts";
import { getOrMake } from "../get-or-make.ts";
import type { Contents } from "./contents.ts";
import { damageError } from "./damage-error.ts";
import type { FileSet } from "./file-set.ts";
import type { StoreIo } from "./io.ts";
import { glance, readHeader } from "./line.ts";
import type { Locator } from "./locators.ts";
import type { StoredLine } from "./read-segment.ts";
import { brokenLine, sealedPart } from "./read-segment.ts";
import { scanLines } from "./scan-lines.ts";
import type { Segment } from "./segment.ts";
import { TableWriter } from "./table-writer.ts";

/** What the files of one compaction became: new files, and where lines moved. */
export interface Compacted {
  readonly segments: readonly Segment[];
  /** Points the index to the new lines; those that were superseded meanwhile stay dead. */
  readonly move: () => void;
}

/**
 * Copies the lines of `sources` that still matter into new files, one set for each table, and syncs them. The lines are
 * copied as they are, checksum included. The store changes only when the new files are published.
 */
export async function compactFiles(
  files: FileSet,
  contents: Contents,
  { sources, limit }: { sources: readonly Segment[]; limit: number },
): Promise<Compacted> {
  const writers = new Map<string, TableWriter>();
  const moves: (() => void)[] = [];
  const others = files.order.filter((segment) => !sources.includes(segment));
  const oldest = Math.min(...others.map((segment) => segment.from));
  const keep = (at: Locator, bytes: Buffer, file: string): void => {
    if (isDead(contents, glance(bytes), at)) return;
    const header = readHeader(bytes);
    if (header === undefined)
      throw damageError({ file, byte: at.offset, what: "it is no line of an entity or entry" });
    const line = { header, at, bytes };
    const what = judge(contents, line, oldest);
    if (what === undefined) return;
    const writer = getOrMake(writers, line.header.t, () => new TableWriter(files, line.header.t, limit));
    const to = writer.add(line.bytes, line.header.s);
    if (what === "removal") writer.countRemoval(to);
    else moves.push(moveOf(contents, line, what, to));
  };
  try {
    for (const source of sources) await readLines(files.io, source, keep);
    for (const writer of writers.values()) await writer.finish();
    await files.io.syncFolder(files.folder);
  } catch (error) {
    for (const writer of writers.values()) writer.discard();
    throw error;
  }
  const segments = [...writers.values()].flatMap((writer) => writer.segments);
  return { segments, move: () => moves.forEach((move) => void move()) };
}

/** Gives every line of a file behind its head. Throws where one is not as it was written. */
async function readLines(
  io: StoreIo,
  { id, name, file, size }: Segment,
  visit: (at: Locator, bytes: Buffer, file: string) => void,
): Promise<void> {
  const actual = io.size(file.handle);
  if (actual < size)
    throw damageError({ file: name, byte: actual, what: `${size - actual} bytes are missing` });
  await scanLines(io, { file: file.handle, size }, (line) => {
    const bytes = sealedPart(line);
    if (bytes === undefined) throw damageError({ file: name, ...brokenLine(line) });
    if (line.number > 1) visit({ segment: id, offset: line.position, length: bytes.length }, bytes, name);
  });
}

/** Tells most of the lines that are out of date from those that have to be looked at. */
function isDead(contents: Contents, names: ReturnType<typeof glance>, at: Locator): boolean {
  if (names === undefined || names.i === 0) return false;
  if (names.i !== undefined)
    return contents.entriesOf(names.t, names.id)?.isAt(names.i, at.segment, at.offset) !== true;
  const table = contents.tableOf(names.t);
  const slot = table.index.slotOf(names.id);
  return slot !== undefined && !isAt(contents, table, slot, at);
}

/** What a line still is: the newest version of an entity (by slot), an entry, a removal that matters, or nothing. */
function judge(
  contents: Contents,
  { header, at }: StoredLine,
  oldest: number,
): { slot: number } | "entry" | "removal" | undefined {
  if (header.i !== undefined && header.i > 0) {
    const live = contents.entriesOf(header.t, header.id)?.isAt(header.i, at.segment, at.offset);
    return live === true ? "entry" : undefined;
  }
  // A removal matters as long as a file may hold something older that it removed.
  if (header.i === 0) return oldest < header.s ? "removal" : undefined;
  const table = contents.tableOf(header.t);
  const slot = table.index.slotOf(header.id);
  if (header.x === undefined) return slot === undefined && oldest < header.s ? "removal" : undefined;
  if (slot === undefined || !isAt(contents, table, slot, at)) return undefined;
  return { slot };
}

function isAt(contents: Contents, table: StoreTable, slot: number, at: Locator): boolean {
  const { segment, offset } = contents.locatorOf(table, slot);
  return segment === at.segment && offset === at.offset;
}

function moveOf(
  contents: Contents,
  { header, at }: StoredLine,
  what: { slot: number } | "entry",
  to: Locator,
): () => void {
  if (what === "entry") {
    const entry = { key: header.id, number: header.i! };
    return () => contents.moveEntry(header.t, entry, at, to);
  }
  const table = contents.tableOf(header.t);
  return () => contents.moveEntity(table, what.slot, at, to);
}

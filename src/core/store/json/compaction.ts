import { getOrMake } from "../../base/get-or-make.ts";
import { Bands } from "./bands.ts";
import type { Contents } from "./contents.ts";
import { damageError } from "./damage-error.ts";
import type { FileSet } from "./file-set.ts";
import { type LineNames, readNames, withIndex } from "./line.ts";
import { findLiveLines, type LiveLine } from "./live-lines.ts";
import type { Locator } from "./locators.ts";
import { Moves } from "./moves.ts";
import type { Segment } from "./segment.ts";
import { readSpan, spansOf } from "./spans.ts";
import { TableWriter } from "./table-writer.ts";

/** The result of one compaction: new files, and where lines moved. */
export interface Compacted {
  readonly segments: readonly Segment[];
  readonly moves: Moves;
}

/** A line that removes something, by the number of its write. */
interface RemovalLine {
  readonly at: Locator;
  readonly removal: number;
}

/** A line of a source that matters, or did when it was found. */
type SourceLine = LiveLine | RemovalLine;

/**
 * Copies the lines of `sources` that still matter into new files, one set for each table, and syncs them.
 * Which those are is known from the index; nothing else is read. The lines are copied unchanged, with their
 * checksums; entities without an index get one, so that a start need not parse them. The store changes only
 * when the new files are published.
 */
export async function compactFiles(
  files: FileSet,
  contents: Contents,
  { sources, limit }: { sources: readonly Segment[]; limit: number },
): Promise<Compacted> {
  const writers = new Map<string, TableWriter>();
  const moves = new Moves();
  const keep = (line: SourceLine, bytes: Buffer): void => {
    const names = readNames(bytes);
    if (names === undefined || !isOf(line, names)) throw foreign(contents, line.at);
    // An entity may have changed while its line was read: its index is that of a newer one by now.
    if (removes(line) ? !matters(contents, names) : !line.isLive()) return;
    const writer = getOrMake(writers, names.t, () => new TableWriter(files, names.t, limit));
    if (removes(line)) writer.addRemoval(bytes, names.s);
    else moves.add(line, writer.add(indexed(line, bytes, names), names.s));
  };
  const lines = await findLines(files, contents, sources);
  try {
    for (const part of lines.parts()) await readLines(contents, part, keep);
    for (const writer of writers.values()) await writer.finish();
    if (writers.size > 0) await files.io.syncFolder(files.folder);
  } catch (error) {
    for (const writer of writers.values()) writer.discard();
    throw error;
  }
  return { segments: [...writers.values()].flatMap((writer) => writer.segments), moves };
}

/** The lines of `sources` that the index points to, and the removals of what another file may still have. */
async function findLines(
  files: FileSet,
  contents: Contents,
  sources: readonly Segment[],
): Promise<Bands<SourceLine>> {
  const lines = new Bands<SourceLine>();
  const others = files.order.filter((segment) => !sources.includes(segment));
  const oldest = Math.min(...others.map(({ from }) => from));
  for (const { id: segment, removals } of sources)
    removals.since(oldest, (removal, place) => lines.add({ at: { segment, ...place }, removal }));
  const ids = new Set(sources.map(({ id }) => id));
  await findLiveLines(contents, ids, (line) => lines.add(line));
  return lines;
}

/** Reads those lines that still matter, checks them, and gives them to `keep`. */
async function readLines(
  { segments }: Contents,
  part: readonly SourceLine[],
  keep: (line: SourceLine, bytes: Buffer) => void,
): Promise<void> {
  const lines = part.filter((line) => removes(line) || line.isLive());
  const locators = lines.map(({ at }) => at);
  for (const span of spansOf(locators))
    await readSpan(segments, { locators, span }, (place, bytes) => keep(lines[place]!, bytes));
}

function removes(line: SourceLine): line is RemovalLine {
  return "removal" in line;
}

/** A line with the index of the service's version. */
function indexed(line: LiveLine, bytes: Buffer, names: LineNames): Buffer {
  const index = line.version === names.v ? undefined : line.index();
  return index === undefined ? bytes : withIndex(bytes, names, index);
}

function isOf(line: SourceLine, names: LineNames): boolean {
  return removes(line) ? line.removal === names.s : line.isOf(names);
}

/** An entity that was inserted again has a newer line; a line that clears a key may precede valid entries. */
function matters(contents: Contents, { t, id, i }: LineNames): boolean {
  return i === 0 || contents.tableOf(t).index.slotOf(id) === undefined;
}

function foreign({ segments }: Contents, { segment, offset: byte }: Locator): Error {
  const file = segments.get(segment)?.name ?? "a file";
  return damageError({ file, byte, what: "it is not the line that was written there" });
}

import { noteTime } from "../../base/note-time.ts";
import { storageError } from "../storage-error.ts";
import type { StoreLogger } from "../store.ts";
import type { CheckpointName } from "./checkpoint-file.ts";
import type { Contents } from "./contents.ts";
import { damageError } from "./damage-error.ts";
import type { FileSet } from "./file-set.ts";
import { checkPosition, loadCheckpoint, loadOrders } from "./load-checkpoint.ts";
import type { Manifest } from "./manifest.ts";
import { readSegment } from "./read-segment.ts";
import { isRemoval } from "./removals.ts";
import { Replay } from "./replay.ts";
import type { Segment } from "./segment.ts";
import { examineTail, type TornTail } from "./torn-tail.ts";

/** What a start found in the files. */
export interface Loaded {
  /** Number of the last write. */
  readonly last: number;
  /** What a crash left at the end of the journal; already excluded. */
  readonly torn: TornTail | undefined;
  /** Files that were not read, as the checkpoint covers them. */
  readonly covered: ReadonlySet<Segment>;
}

/**
 * Reads all files into the index. Rejects if one is damaged other than by a crash during a write. With a checkpoint that
 * fits, those that it covers are not read: a line in them is checked when it is read for somebody.
 */
export async function loadFiles(
  files: FileSet,
  contents: Contents,
  unsealed: Segment | undefined,
  checkpoint?: { readonly named: CheckpointName; readonly log: StoreLogger },
): Promise<Loaded> {
  if (checkpoint === undefined) return readAll(files, contents, unsealed, undefined);
  try {
    const loaded = await readAll(files, contents, unsealed, checkpoint.named);
    files.checkpoint = checkpoint.named;
    return loaded;
  } catch (error) {
    // Whatever is wrong with it or with the files: they alone decide.
    checkpoint.log.info("Store: the checkpoint of the index is not used; all files are read", {
      reason: String(error),
    });
    contents.reset();
    return readAll(files, contents, unsealed, undefined);
  }
}

/** The same with a checkpoint that must fit. `arePlaces` loads only ids and locations, whatever the tables are. */
export async function readAll(
  files: FileSet,
  contents: Contents,
  unsealed: Segment | undefined,
  named: CheckpointName | undefined,
  { arePlaces = false } = {},
): Promise<Loaded> {
  const replay = new Replay(contents);
  const began = performance.now();
  const checkpoint = named && loadCheckpoint(files, { contents, replay, arePlaces }, named);
  if (checkpoint) noteTime("store: checkpoint", began);
  const loaded = performance.now();
  let last = checkpoint?.end.last ?? 0;
  let journalEnd: number | undefined;
  let torn: TornTail | undefined;
  for (const segment of files.order) {
    if (checkpoint?.covered.has(segment)) continue;
    const end = await readSegment(files.io, segment, (line) => {
      last = Math.max(last, line.header.s);
      if (isRemoval(line.header)) segment.removals.add(line.header.s, line.at);
      replay.apply(line);
    });
    if (end.flaw !== undefined && segment !== unsealed)
      throw damageError({ file: segment.name, ...end.flaw });
    if (end.flaw !== undefined) torn = await examineTail(files.io, segment, { ...end, flaw: end.flaw });
    if (segment === unsealed) segment.size = end.whole;
    if (segment.kind === "journal") journalEnd = Math.max(journalEnd ?? 0, end.next - 1);
    last = Math.max(last, end.next - 1);
  }
  replay.settle();
  noteTime("store: files", loaded);
  const read = performance.now();
  if (checkpoint !== undefined) {
    checkPosition(checkpoint, journalEnd);
    contents.removeMissing();
    loadOrders(checkpoint, contents);
  }
  replay.finish();
  noteTime("store: order", read);
  return { last, torn, covered: checkpoint?.covered ?? new Set() };
}

/** Opens the files that the manifest names; returns the one that was being written to when the store was last open. */
export function openNamed(
  files: FileSet,
  manifest: Pick<Manifest, "files"> | undefined,
): Segment | undefined {
  if (manifest === undefined) {
    refuseOrphans(files);
    return undefined;
  }
  let unsealed: Segment | undefined;
  for (const { name, size } of manifest.files) {
    const segment = files.open(name, size);
    if (size === undefined) unsealed = segment;
  }
  return unsealed;
}

/** Lines without a manifest are somebody's data: an empty store beside them would lose them. */
function refuseOrphans(files: FileSet): void {
  const orphans = files.orphans();
  if (orphans.length === 0) return;
  throw storageError(
    `MANIFEST.json is missing in ${files.folder}, but the folder has store files: ${orphans.join(", ")}`,
    "Restore MANIFEST.json from a backup, or run `svc store repair` to continue with the files' content.",
  );
}

import { codeOf } from "../../storage/file-io.ts";
import { longer } from "../engine/longer.ts";
import {
  type CheckpointEnd,
  type CheckpointName,
  type CoveredFile,
  checkHead,
  checkSum,
  type OrderPart,
  readEnd,
  readParts,
  UnfitCheckpoint,
} from "./checkpoint-file.ts";
import type { Contents } from "./contents.ts";
import type { FileSet } from "./file-set.ts";
import type { Replay } from "./replay.ts";
import type { Segment } from "./segment.ts";

/** What a start need not read, as a checkpoint has it. */
export interface LoadedCheckpoint {
  readonly covered: ReadonlySet<Segment>;
  readonly end: CheckpointEnd;
  readonly orders: readonly OrderPart[];
  /** By table: one more than the slot that each entity has now, by the one that it had. */
  readonly moved: ReadonlyMap<string, Uint32Array>;
}

/**
 * Loads the checkpoint that the manifest names. The lines of all files that it does not cover must be applied then. Throws
 * if it does not fit the files: then everything that was loaded is to be forgotten.
 */
export function loadCheckpoint(
  files: FileSet,
  { contents, replay, arePlaces }: { contents: Contents; replay: Replay; arePlaces: boolean },
  named: CheckpointName,
): LoadedCheckpoint {
  const { io, folder } = files;
  const file = openCheckpoint(files, `${folder}/${named.name}`);
  try {
    checkSum(io, file, named);
    const parts = readParts(io, file, named.size);
    const head = checkHead(parts.next().value ?? undefined);
    const byName = new Map(files.order.map((segment) => [segment.name, segment]));
    const covered = new Set<Segment>();
    for (const each of head.files) {
      const segment = byName.get(each.name);
      // What a compaction has removed is in other files.
      if (segment === undefined) continue;
      cover(files, segment, each);
      covered.add(segment);
    }
    const segmentOf: number[] = [];
    const end = readEnd(io, file, named.size);
    for (const [number, name] of Object.entries(end.names))
      segmentOf[Number(number)] = byName.get(name)?.id ?? 0;
    for (const [name, size] of Object.entries(head.sizes)) contents.reserve(name, size);
    const moved = new Map<string, Uint32Array>();
    const orders: OrderPart[] = [];
    for (const part of parts) {
      if ("ordered" in part) orders.push({ ...part, slots: part.slots.slice() });
      if ("log" in part) replay.loadLog(part, segmentOf);
      if (!("table" in part)) continue;
      if (!arePlaces && (contents.versionOf(contents.tableOf(part.table)) ?? null) !== part.version)
        throw new UnfitCheckpoint(`it has another version of table ${part.table}`);
      const { ids } = part.slice;
      const slice = arePlaces ? { ids, texts: undefined, fields: {} } : part.slice;
      const first = contents.load({ ...part, slice }, segmentOf);
      const needed = part.slots.reduce((most, slot) => Math.max(most, slot + 1), 0);
      let slots = moved.get(part.table) ?? new Uint32Array(head.sizes[part.table] ?? 0);
      if (needed > slots.length) slots = longer(slots, needed);
      for (let at = 0; at < part.slots.length; at++) slots[part.slots[at]!] = first + at + 1;
      moved.set(part.table, slots);
    }
    return { covered, end, orders, moved };
  } finally {
    io.close(file);
  }
}

function openCheckpoint({ io }: FileSet, path: string): number {
  try {
    return io.open(path, "read");
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error;
    throw new UnfitCheckpoint("it is missing");
  }
}

/** Notes what is known of a file that is not read. Throws if it is not as it was. */
function cover({ io }: FileSet, segment: Segment, known: CoveredFile): void {
  const { size, modified } = io.identityOf(segment.file.handle);
  if (segment.size !== known.size || size !== known.size || modified !== known.modified)
    throw new UnfitCheckpoint(`${known.name} was changed since`);
  const { from, bare, isOutdated, removals, needed } = known;
  Object.assign(segment, { from, bare, isOutdated });
  segment.removals.load(removals, needed);
}

/** Creates the orders, once all lines were applied. */
export function loadOrders({ orders, moved }: LoadedCheckpoint, contents: Contents): void {
  for (const { ordered, field, slots } of orders) {
    const now = moved.get(ordered) ?? new Uint32Array(0);
    // Of one that is gone, the number of no slot.
    for (let at = 0; at < slots.length; at++) slots[at] = (now[slots[at]!] ?? 0) - 1;
    contents.tableOf(ordered).index.loadOrder(field, slots);
  }
}

/** Throws if the journal ends before the last write that a checkpoint has: it would be more than what is stored. */
export function checkPosition({ end }: LoadedCheckpoint, journalEnd: number | undefined): void {
  if (journalEnd === undefined ? end.hasActive : journalEnd < end.last)
    throw new UnfitCheckpoint("the journal ends before it");
}

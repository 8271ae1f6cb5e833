import type { UnstorageStorage } from "../storage/open-storage.ts";
import { ClosedStoreError, type Mark } from "./closed.ts";
import { type Content, counted, differenceOf, type PartSum, sumsOf } from "./content.ts";
import { assertContents, copyContents } from "./files/copy-contents.ts";
import { storageError } from "./storage-error.ts";

/** In which state a place is: `incomplete` is a copy that was interrupted, of a move if it has its id. */
export type PlaceState =
  | { readonly kind: "empty" | "open" }
  | { readonly kind: "closed"; readonly mark: Mark }
  | { readonly kind: "incomplete"; readonly move: string | undefined };

/** Where a store is or is to be: a folder, or a schema of a database. Nothing is called before `lock` has resolved. */
export interface Place {
  /** For people, without a password. */
  readonly name: string;
  /** Keeps other moves, and services where they would not notice, away until `release`. */
  lock(): Promise<void>;
  release(): Promise<void>;
  state(): Promise<PlaceState>;
  /** Reads its store as of one moment, also a closed one. */
  read<T>(work: (content: Content) => Promise<T>): Promise<T>;
  /**
   * Closes its store, or opens it, in one step; what was written before is in it. Closing an open one rejects if a
   * service uses it.
   */
  setMark(mark: Mark | undefined): Promise<void>;
  /**
   * Fills the empty place with a store that is closed with the mark, if there is one: as a whole or, if the process
   * dies or `check` throws, not in a way that anything opens. `check` gets what was read back.
   */
  fill(content: Content, mark: Mark | undefined, check: (sums: readonly PartSum[]) => void): Promise<void>;
  /** Makes what contents are written to, where there may be nothing yet. */
  prepare?(): Promise<void>;
  /** Where it keeps the contents of files. */
  readonly contents: UnstorageStorage;
  /** Removes what an interrupted `fill` of this move has left. */
  clear(move: string): Promise<void>;
}

export interface MoveOptions {
  readonly source: Place;
  readonly target: Place;
  readonly now: () => Date;
  readonly newId: () => string;
  /** Called with each step, for people. */
  readonly report?: (step: string) => void;
}

export interface Moved {
  /** Whether an earlier call had moved it, or a part of it. */
  readonly was: "new" | "resumed" | "done";
  /** What was moved; empty where it was done before. */
  readonly source: readonly PartSum[];
  readonly target: readonly PartSum[];
}

/**
 * Moves a store. At no moment both places can be opened: the source is closed first; the copy is closed from its first
 * moment on, and is opened once the source says that it was moved. So a call that is killed can be made again, which
 * finishes the move.
 */
export async function moveStore(options: MoveOptions): Promise<Moved> {
  return locked(options, async () => {
    const { source, target } = options;
    const [here, there] = [await source.state(), await target.state()];
    const under = here.kind === "closed" ? here.mark : undefined;
    if (under?.state === "moved" && under.other === target.name && there.kind === "open")
      return { was: "done", source: [], target: [] };
    if (under === undefined) refuseStart(options, here, there);
    else refuseResume(options, under, there);
    const mark: Mark = under ?? {
      move: options.newId(),
      state: "moving",
      other: target.name,
      at: options.now().toISOString(),
    };
    if (under === undefined) {
      await source.setMark(mark);
      options.report?.(`${source.name} is read-only from now on`);
    }
    const sums = await copy(options, mark, there);
    if (mark.state === "moving") {
      await copyContents(source.contents, target.contents);
      await target.read((content) => assertContents(content, target.contents, target.name));
    }
    if (mark.state === "moving")
      await source.setMark({ ...mark, state: "moved", at: options.now().toISOString() });
    await target.setMark(undefined);
    return { was: under === undefined ? "new" : "resumed", ...sums };
  });
}

/** Fills an empty place with a content, and compares what it has then. */
export async function fillPlace(
  place: Place,
  given: Content,
  contents: UnstorageStorage,
): Promise<readonly PartSum[]> {
  const { content, sums } = counted(given);
  // Before anything names them.
  await place.prepare?.();
  await copyContents(contents, place.contents);
  await place.fill(content, undefined, (theirs) => {
    const difference = differenceOf(sums, theirs);
    if (difference !== undefined)
      throw storageError(
        `The copy in ${place.name} is wrong (${difference})`,
        "Nothing was stored; try again.",
      );
  });
  return sums;
}

function refuseStart({ source, target }: MoveOptions, here: PlaceState, there: PlaceState): void {
  if (here.kind === "empty") {
    throw storageError(`${source.name} has no data`, "Set the place to move from with --from.");
  }
  if (here.kind === "incomplete") {
    throw storageError(
      `${source.name} has an incomplete store`,
      "Delete it, and repeat the backup, restore, import or move into it.",
    );
  }
  if (there.kind === "closed") throw new ClosedStoreError(there.mark);
  if (there.kind !== "empty") throw notEmpty(target);
}

function notEmpty({ name }: Place): Error {
  return storageError(
    `${name} is not empty`,
    "Move into an empty place: a new folder, or a database or schema without jobs and settings.",
  );
}

/** The source is closed: by this move, or by another one. */
function refuseResume({ target }: MoveOptions, mark: Mark, there: PlaceState): void {
  if ((mark.state !== "moving" && mark.state !== "moved") || mark.other !== target.name)
    throw new ClosedStoreError(mark);
  if (there.kind === "closed" && isFilledBy(mark, there)) return;
  if (mark.state === "moved") {
    throw storageError(
      `The data was moved to ${target.name}, where it is no longer`,
      "To use the data as it was then, run the same command with --undo.",
    );
  }
  if (there.kind === "closed") throw new ClosedStoreError(there.mark);
  if (there.kind === "empty" || (there.kind === "incomplete" && there.move === mark.move)) return;
  throw notEmpty(target);
}

function isFilledBy({ move }: Mark, state: PlaceState): boolean {
  return state.kind === "closed" && state.mark.state === "filled" && state.mark.move === move;
}

/** Fills the target, unless that was done before, and compares it with the source. */
async function copy(
  options: MoveOptions,
  mark: Mark,
  there: PlaceState,
): Promise<Pick<Moved, "source" | "target">> {
  const { source, target, report } = options;
  if (isFilledBy(mark, there)) {
    report?.(`${target.name} was filled before; comparing`);
    const sums = { source: await source.read(sumsOf), target: await target.read(sumsOf) };
    refuseDifference(options, sums.source, sums.target);
    return sums;
  }
  try {
    if (there.kind === "incomplete") await target.clear(mark.move);
    report?.(`copying to ${target.name}`);
    return await source.read(async (given) => {
      const { content, sums: own } = counted(given);
      let theirs: readonly PartSum[] = [];
      const filled: Mark = { ...mark, state: "filled", other: source.name };
      await target.fill(content, filled, (sums) => {
        refuseDifference(options, own, sums);
        theirs = sums;
      });
      return { source: own, target: theirs };
    });
  } catch (error) {
    await giveUp(options, mark).catch(() => {});
    throw error;
  }
}

function refuseDifference(
  { source, target }: MoveOptions,
  one: readonly PartSum[],
  other: readonly PartSum[],
): void {
  const difference = differenceOf(one, other);
  if (difference === undefined) return;
  throw storageError(
    `The copy in ${target.name} is not what ${source.name} has (${difference})`,
    "Nothing was moved. Run the same command with --undo, then try again.",
  );
}

/** Opens the source again after a failure, if the target has nothing. */
async function giveUp({ source, target }: MoveOptions, { move }: Mark): Promise<void> {
  if ((await target.state()).kind === "incomplete") await target.clear(move);
  if ((await target.state()).kind === "empty") await source.setMark(undefined);
}

/**
 * Opens the source of a move again, finished or not. The target is closed, if it has the data; what was stored there
 * since is lost, which is refused without `force`. With `force`, a target that cannot be reached is ignored.
 */
export async function undoMove(options: MoveOptions & { readonly force: boolean }): Promise<void> {
  const { source, target, force } = options;
  await source.lock();
  try {
    const isThere = await target.lock().then(
      () => true,
      (error: unknown) => {
        if (!force) throw error;
        return false;
      },
    );
    try {
      const state = await source.state();
      if (state.kind !== "closed") {
        throw storageError(`${source.name} was not moved`, "There is nothing to undo.");
      }
      const { mark } = state;
      if ((mark.state !== "moving" && mark.state !== "moved") || mark.other !== target.name)
        throw new ClosedStoreError(mark);
      if (isThere) await close(options, mark);
      await source.setMark(undefined);
    } finally {
      await target.release();
    }
  } finally {
    await source.release();
  }
}

/** Closes the target of a move that is being undone. */
async function close(
  { source, target, now, force }: MoveOptions & { readonly force: boolean },
  mark: Mark,
): Promise<void> {
  const there = await target.state();
  const undone: Mark = { ...mark, state: "undone", other: source.name, at: now().toISOString() };
  if (there.kind === "incomplete" && there.move === mark.move) await target.clear(mark.move);
  if (there.kind === "closed") {
    // It may have been moved on from there.
    if (there.mark.move !== mark.move && !force) throw new ClosedStoreError(there.mark);
    if (there.mark.move === mark.move) await target.setMark(undone);
  }
  // Before the source is moved, the target of its move cannot be opened: this one is of something else.
  if (there.kind !== "open" || mark.state !== "moved") return;
  const difference = force ? undefined : differenceOf(await source.read(sumsOf), await target.read(sumsOf));
  if (difference !== undefined) {
    throw storageError(
      `${target.name} has changed since the move (${difference})`,
      "Move it back from there into another empty place to keep its data, or add --force to discard what was stored there.",
    );
  }
  await target.setMark(undone);
}

async function locked<T>({ source, target }: MoveOptions, work: () => Promise<T>): Promise<T> {
  if (source.name === target.name) {
    throw storageError(`${source.name} cannot be moved to itself`, "Use another target.");
  }
  await source.lock();
  try {
    await target.lock();
    try {
      return await work();
    } finally {
      await target.release();
    }
  } finally {
    await source.release();
  }
}

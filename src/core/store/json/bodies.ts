import { damageError } from "./damage-error.ts";
import { isSealed, readBody } from "./line.ts";
import type { Locator } from "./locators.ts";
import type { Segment, Segments } from "./segment.ts";

/** Lines nearer to each other than this are read in one go. */
const GAP = 16 * 1024;
/** One read takes no more than this, unless a single line is longer. */
const SPAN = 1024 * 1024;

/** Reads the body of one line at once. */
export function readBodySync(segments: Segments, at: Locator): string {
  const segment = segmentOf(segments, at);
  const bytes = Buffer.allocUnsafe(at.length);
  return bodyIn(segment, at, bytes.subarray(0, segment.file.readSync(bytes, at.offset)));
}

/** Reads the bodies of lines, in their order, in few reads. The files they lie in stay open until it is done. */
export async function readBodies(segments: Segments, locators: readonly Locator[]): Promise<string[]> {
  const bodies = new Array<string>(locators.length);
  const places = locators.map((_, place) => place);
  places.sort(
    (a, b) => locators[a]!.segment - locators[b]!.segment || locators[a]!.offset - locators[b]!.offset,
  );
  const reads: Promise<void>[] = [];
  for (let first = 0; first < places.length; ) {
    const count = spanFrom(locators, places, first);
    reads.push(readSpan(segments, locators, places.slice(first, first + count), bodies));
    first += count;
  }
  await Promise.all(reads);
  return bodies;
}

/** How many places from `first` on are near enough to be read together. */
function spanFrom(locators: readonly Locator[], places: readonly number[], first: number): number {
  const start = locators[places[first]!]!;
  let end = start.offset + start.length;
  let count = 1;
  for (; first + count < places.length; count++) {
    const next = locators[places[first + count]!]!;
    if (next.segment !== start.segment || next.offset > end + GAP) break;
    if (next.offset + next.length - start.offset > SPAN) break;
    end = Math.max(end, next.offset + next.length);
  }
  return count;
}

async function readSpan(
  segments: Segments,
  locators: readonly Locator[],
  places: readonly number[],
  bodies: string[],
): Promise<void> {
  const start = locators[places[0]!]!;
  const last = locators[places[places.length - 1]!]!;
  const segment = segmentOf(segments, start);
  const bytes = Buffer.allocUnsafe(last.offset + last.length - start.offset);
  const count = await segment.file.read(bytes, start.offset);
  for (const place of places) {
    const at = locators[place]!;
    const from = at.offset - start.offset;
    bodies[place] = bodyIn(segment, at, bytes.subarray(from, Math.min(from + at.length, count)));
  }
}

function segmentOf(segments: Segments, at: Locator): Segment {
  const segment = segments.get(at.segment);
  if (segment === undefined) throw new Error(`There is no file ${at.segment}`);
  return segment;
}

/** Every read checks the line: a disk that rots must be noticed before its bytes are believed. */
function bodyIn(segment: Segment, at: Locator, line: Buffer): string {
  if (line.length === at.length && isSealed(line)) return readBody(line);
  throw damageError({ file: segment.name, byte: at.offset, what: "the checksum does not match" });
}

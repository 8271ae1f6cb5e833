import { damageError } from "./damage-error.ts";
import { isSealed } from "./line.ts";
import type { Locator } from "./locators.ts";
import type { Segment, Segments } from "./segment.ts";

/** Lines nearer to each other than this are read together. */
const GAP = 16 * 1024;
/** Maximum size of one read, unless a single line is longer. */
const SPAN = 1024 * 1024;

/** Sorts lines, by index in `locators`, by location, and groups those of one read. */
export function spansOf(locators: readonly Locator[]): number[][] {
  const places = locators.map((_, place) => place);
  places.sort(
    (a, b) => locators[a]!.segment - locators[b]!.segment || locators[a]!.offset - locators[b]!.offset,
  );
  const spans: number[][] = [];
  for (let first = 0; first < places.length; ) {
    const count = spanFrom(locators, places, first);
    spans.push(places.slice(first, first + count));
    first += count;
  }
  return spans;
}

/** How many lines from `first` on are near enough to be read together. */
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

/** Reads the lines of one span; `visit` gets each, checked, and valid only during the call. */
export async function readSpan(
  segments: Segments,
  { locators, span }: { locators: readonly Locator[]; span: readonly number[] },
  visit: (place: number, line: Buffer) => void,
): Promise<void> {
  const start = locators[span[0]!]!;
  const last = locators[span[span.length - 1]!]!;
  const segment = segmentOf(segments, start);
  const bytes = Buffer.allocUnsafe(last.offset + last.length - start.offset);
  const count = await segment.file.read(bytes, start.offset);
  for (const place of span) {
    const at = locators[place]!;
    const from = at.offset - start.offset;
    const line = bytes.subarray(from, Math.min(from + at.length, count));
    checkLine(segment, at, line);
    visit(place, line);
  }
}

export function segmentOf(segments: Segments, at: Locator): Segment {
  const segment = segments.get(at.segment);
  if (segment === undefined) throw new Error(`File ${at.segment} does not exist`);
  return segment;
}

/** Every read checks the line: a failing disk must be detected before its bytes are used. */
export function checkLine(segment: Segment, at: Locator, line: Buffer): void {
  if (line.length === at.length && isSealed(line)) return;
  throw damageError({ file: segment.name, byte: at.offset, what: "the checksum does not match" });
}

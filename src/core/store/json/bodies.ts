import { readBody } from "./line.ts";
import type { Locator } from "./locators.ts";
import type { Segments } from "./segment.ts";
import { checkLine, readSpan, segmentOf, spansOf } from "./spans.ts";

/** Reads the body of one line synchronously. */
export function readBodySync(segments: Segments, at: Locator): string {
  const segment = segmentOf(segments, at);
  const bytes = Buffer.allocUnsafe(at.length);
  const line = bytes.subarray(0, segment.file.readSync(bytes, at.offset));
  checkLine(segment, at, line);
  return readBody(line);
}

/**
 * What `read` makes of the bodies of lines, in their order, in few reads. Their files stay open until it is
 * done. Only the results are kept: texts of a long log would survive garbage collections, which costs more
 * than reading them.
 */
export async function readBodies<T>(
  segments: Segments,
  locators: readonly Locator[],
  read: (body: string) => T,
): Promise<T[]> {
  const bodies = new Array<T>(locators.length);
  const keep = (place: number, line: Buffer) => {
    bodies[place] = read(readBody(line));
  };
  await Promise.all(spansOf(locators).map((span) => readSpan(segments, { locators, span }, keep)));
  return bodies;
}

import type { LiveLine } from "./live-lines.ts";
import type { Locator } from "./locators.ts";
import { Pauses } from "./pauses.ts";
import type { Segment } from "./segment.ts";

/** Lines that are moved without a pause: about a millisecond. */
const SLICE = 5_000;

/** The lines that a compaction copied, and where to. */
export class Moves {
  readonly #lines: { readonly line: LiveLine; readonly to: Locator }[] = [];

  add(line: LiveLine, to: Locator): void {
    this.#lines.push({ line, to });
  }

  /**
   * The first file for which the index does not point to exactly as many bytes as were copied and still
   * count: removing it would lose data. Counted again from the index, independent of each file's own count.
   */
  async findUncovered(sources: readonly Segment[]): Promise<Segment | undefined> {
    const bytes = new Map<number, number>();
    const pauses = new Pauses(SLICE);
    for (const { line } of this.#lines) {
      const { segment, length } = line.at;
      if (line.isLive()) bytes.set(segment, (bytes.get(segment) ?? 0) + length + 1);
      if (pauses.isDue(1)) await pauses.take();
    }
    return sources.find(({ id, live }) => live !== (bytes.get(id) ?? 0));
  }

  /** Points the index to the copies; lines that were superseded in the meantime stay outdated. */
  async make(): Promise<void> {
    const pauses = new Pauses(SLICE);
    for (const { line, to } of this.#lines) {
      line.move(to);
      if (pauses.isDue(1)) await pauses.take();
    }
  }
}

import type { Locator } from "./locators.ts";

/** Bytes of a file whose lines are sorted, read and copied without a pause: with small lines some milliseconds. */
const BAND = 128 * 1024;
/** More than the bands of a file: offsets have 32 bits. */
const BANDS = 2 ** 32 / BAND;

/**
 * Collects items by location in files, and returns them in parts, from the beginning of each file to its end.
 */
export class Bands<T extends { readonly at: Locator }> {
  readonly #bands = new Map<number, T[]>();

  add(item: T): void {
    const number = item.at.segment * BANDS + Math.floor(item.at.offset / BAND);
    const band = this.#bands.get(number);
    if (band === undefined) this.#bands.set(number, [item]);
    else band.push(item);
  }

  /** The items of each band, in any order. */
  *parts(): Generator<T[], void> {
    for (const number of [...this.#bands.keys()].sort((a, b) => a - b)) yield this.#bands.get(number)!;
  }
}

import { describe, expect, it } from "vitest";
import { RANGES, startsOf } from "../../src/plugins/admin/pages/well.ts";

const HOUR = 3_600_000;
const NOON = Date.parse("2026-03-29T12:00:00.000Z");

describe.each(Object.entries(RANGES))("the columns of %s", (_, range) => {
  it.each([0, 1, HOUR - 1, HOUR, 7 * HOUR, 12 * HOUR - 1, 12 * HOUR])(
    "are as many at every moment, and have what happens now: %i ms after noon",
    (after) => {
      const now = NOON + after;
      const starts = startsOf(now, range);

      expect(starts).toHaveLength(range.length / range.step);
      expect(starts.at(-1)).toBeLessThanOrEqual(now);
      expect(starts.at(-1)! + range.step).toBeGreaterThan(now);
      expect(starts[0]).toBeGreaterThan(now - range.length);
      expect(starts.every((start) => start % range.step === 0)).toBe(true);
    },
  );
});

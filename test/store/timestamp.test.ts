import { describe, expect, it } from "vitest";
import { parseTimestamp } from "../../src/core/store/timestamp.ts";

describe("the milliseconds of a timestamp", () => {
  it("are the same as from Date, over four centuries and each day of a year", () => {
    for (let time = 0; time < Date.UTC(2400, 0); time += 86_400_000 * 11 + 12_345_678) {
      expect(parseTimestamp(new Date(time).toISOString())).toBe(time);
    }
    for (let day = 0; day < 1500; day++) {
      const time = Date.UTC(2023, 0, 1 + day, 23, 59, 59, 999);
      expect(parseTimestamp(new Date(time).toISOString())).toBe(time);
    }
  });

  it.each([
    "1969-12-31T23:59:59.999Z",
    "2024-02-29T00:00:00.000Z",
    "2026-01-31T09:30:00Z",
    "2026-01-31T09:30:00.000+02:00",
    "2026-01-31T24:00:00.000Z",
    "2026-13-01T09:30:00.000Z",
    "2026-00-01T09:30:00.000Z",
    "2026-01-01T25:30:00.000Z",
    "2026-01-01T09:60:00.000Z",
    "2026-01-01 09:30:00.000Z",
    "2026-01-01T09:30:00.00xZ",
    "2026-01-01T09:30:00.0000",
    "+02026-01-01T09:30:00.0Z",
    "Thu, 01 Jan 2026 09:30Z.",
    "",
    "soon",
  ])("are the same as from Date for %j", (text) => {
    expect(parseTimestamp(text)).toBe(Date.parse(text));
  });
});

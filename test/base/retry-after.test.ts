import { describe, expect, it } from "vitest";
import { parseRetryAfter, readRetryAfter } from "../../src/core/base/retry-after.ts";

const NOW = new Date("2026-01-31T09:30:00Z");

describe("a Retry-After header", () => {
  it.each([
    ["120", 120_000],
    [" 0 ", 0],
    ["1.5", 1500],
    ["Sat, 31 Jan 2026 09:31:00 GMT", 60_000],
    ["2026-01-31T09:30:01Z", 1000],
    ["Sat, 31 Jan 2026 09:00:00 GMT", 0],
  ])("of %j is %d milliseconds", (header, milliseconds) => {
    expect(readRetryAfter(header, NOW)).toBe(milliseconds);
  });

  it.each([null, undefined, "", "soon", "-5", "Infinity", "0x10", "5 minutes", "1e9"])(
    "of %j says nothing",
    (header) => {
      expect(readRetryAfter(header, NOW)).toBeUndefined();
    },
  );

  it("keeps a date as a date, which a clock that is set later counts from", () => {
    expect(parseRetryAfter("Sat, 31 Jan 2026 09:31:00 GMT")).toEqual(new Date("2026-01-31T09:31:00Z"));
  });
});

import { describe, expect, it } from "vitest";
import { KeyCheck } from "../../src/core/http/key-check.ts";

const long = "k".repeat(1000);

describe("the check of a key", () => {
  it.each([
    ["short", "s3cret"],
    ["as long as is compared by itself", "k".repeat(252)],
    ["longer", long],
    ["beyond ASCII", "Schlüssel-😀"],
  ])("accepts the right key and no other: %s", (_, key) => {
    const check = new KeyCheck(key);
    const others = [
      "",
      key.slice(1),
      key.slice(0, -1),
      `${key}x`,
      `${key}\0`,
      `x${key.slice(1)}`,
      `${long}k`,
    ];

    for (const other of others) {
      expect(check.isRight(other)).toBe(false);
      expect(check.isRight(key)).toBe(true);
    }
  });
});

import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { describeWeakKeys, estimateBits } from "../../src/core/base/key-strength.ts";

describe("a key", () => {
  it("of 128 random bits or more is strong, in any encoding", () => {
    const keys = Array.from({ length: 200 }, () => [
      randomBytes(16).toString("hex"),
      randomBytes(16).toString("base64url"),
      randomBytes(32).toString("base64url"),
      randomBytes(18).toString("base64"),
    ]).flat();

    expect(keys.filter((key) => estimateBits(key) < 128)).toEqual([]);
  });

  it.each([
    "12345678",
    "correct-horse-battery",
    "a".repeat(200),
    "0123456789".repeat(10),
    "secret".repeat(10),
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    randomBytes(12).toString("hex"),
  ])("%s can be guessed", (key) => {
    const [sentence] = describeWeakKeys({ apiKey: key });

    expect(sentence).toContain("SERVICE_API_KEY");
    expect(sentence).not.toContain(key);
  });
});

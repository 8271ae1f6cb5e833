import { describe, expect, it } from "vitest";
import { Body } from "../../src/core/store/engine/body.ts";
import { BodyCache } from "../../src/core/store/json/body-cache.ts";

describe("a cache of bodies", () => {
  it("evicts the oldest first, and spares a requested one once", () => {
    const cache = new BodyCache(1000);
    for (let slot = 0; slot < 10; slot++) cache.set(slot, bodyOf(100));
    cache.get(0);

    cache.set(10, bodyOf(100));
    expect(present(cache)).toEqual([0, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  });

  it("keeps within its limit, whatever is requested", () => {
    const cache = new BodyCache(1000);
    for (let slot = 0; slot < 100; slot++) {
      cache.set(slot, bodyOf(120));
      present(cache);
    }

    expect(present(cache).length).toBeLessThanOrEqual(8);
  });

  it("evicts in turn what it kept after everything else was evicted", () => {
    const cache = new BodyCache(1000);
    for (let round = 0; round < 3; round++) {
      for (let slot = 0; slot < 10; slot++) cache.set(slot, bodyOf(100));
      // Evicts all that fits beside it: the limit is reached again by these alone.
      for (let slot = 10; slot < 18; slot++) cache.set(slot, bodyOf(125));
      expect(present(cache)).toEqual([10, 11, 12, 13, 14, 15, 16, 17]);
      for (const slot of present(cache)) cache.delete(slot);
    }
  });

  it("returns the version kept last, and counts only that", () => {
    const cache = new BodyCache(1000);
    const newest = bodyOf(90);
    for (let version = 0; version < 50; version++) cache.set(1, bodyOf(100));
    cache.set(1, newest);
    for (let slot = 2; slot < 11; slot++) cache.set(slot, bodyOf(100));

    expect(cache.get(1)).toBe(newest);
    expect(present(cache)).toHaveLength(10);
  });

  it("evicts a body whose next version is too large to be kept", () => {
    const cache = new BodyCache(1000);
    cache.set(1, bodyOf(100));

    cache.set(1, bodyOf(500));

    expect(cache.get(1)).toBeUndefined();
  });
});

function bodyOf(length: number): Body {
  return Body.from("x".repeat(length));
}

function present(cache: BodyCache): number[] {
  return Array.from({ length: 200 }, (_, slot) => slot).filter((slot) => cache.get(slot) !== undefined);
}

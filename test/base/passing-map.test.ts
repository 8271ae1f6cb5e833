import { describe, expect, it } from "vitest";
import { PassingMap } from "../../src/core/base/passing-map.ts";

describe("a map of what comes and goes", () => {
  it("gives what was set, in the order of its keys", () => {
    const map = new PassingMap<string, number>().set("a", 1).set("b", 2).set("a", 3);

    expect(map.size).toBe(2);
    expect([map.get("a"), map.get("b"), map.get("c")]).toEqual([3, 2, undefined]);
    expect([...map]).toEqual([
      ["a", 3],
      ["b", 2],
    ]);
    expect([...map.keys()]).toEqual(["a", "b"]);
    expect([...map.values()]).toEqual([3, 2]);
  });

  it("forgets what was removed, and what all were", () => {
    const map = new PassingMap<string, number>().set("a", 1).set("b", 2);

    expect([map.delete("a"), map.delete("a"), map.has("a")]).toEqual([true, false, false]);
    map.clear();
    expect([map.size, map.get("b"), [...map.values()]]).toEqual([0, undefined, []]);
  });

  it("keeps what was set again since, where a value is to be removed", () => {
    const map = new PassingMap<string, number>().set("a", 1).set("a", 2);

    expect([map.deleteIf("a", 1), map.get("a")]).toEqual([false, 2]);
    expect([map.deleteIf("a", 2), map.has("a")]).toEqual([true, false]);
  });

  it("may be changed while its values are read", () => {
    const map = new PassingMap<number, number>();
    for (let at = 0; at < 100; at++) map.set(at, at);

    const seen: number[] = [];
    for (const value of map.values()) {
      seen.push(value);
      map.delete(value);
      map.delete(value + 1);
    }
    expect(seen).toEqual(Array.from({ length: 50 }, (_, at) => at * 2));
  });
});

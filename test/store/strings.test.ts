import { describe, expect, it } from "vitest";
import { Column } from "../../src/core/store/engine/column.ts";
import { Facet } from "../../src/core/store/engine/facet.ts";
import { StringLookup } from "../../src/core/store/engine/string-lookup.ts";
import { Strings } from "../../src/core/store/engine/strings.ts";
import { BLOCK, Texts } from "../../src/core/store/engine/texts.ts";
import type { IndexValue } from "../../src/core/store/store.ts";
import { SimRandom } from "./sim-random.ts";

/** Among them all that a byte, a character or a code unit cannot hold, and neighbors of different widths. */
const PIECES = [
  "",
  "a",
  "b",
  "ab",
  "\0",
  "\u007f",
  "\u0080",
  "ÿ",
  "Ā",
  "\ud800",
  "\udc00",
  "😀",
  "İ",
  "__proto__",
];

function randomString(random: SimRandom): string {
  if (random.chance(0.05)) return "x".repeat(random.below(700));
  const pieces = Array.from({ length: random.below(5) }, () => PIECES[random.below(PIECES.length)]!);
  return pieces.join("") + (random.chance(0.3) ? String(random.below(50)) : "");
}

const sign = (number: number) => Math.sign(number);
const orderOf = (a: string, b: string) => (a < b ? -1 : Number(a !== b));

describe.each([1, 2, 3, 4])("seed %i", (seed) => {
  it("strings are what was stored last, are in order by code unit, and are found by their value", () => {
    const random = new SimRandom(seed);
    const strings = new Strings();
    const lookup = new StringLookup(strings);
    const held = new Map<number, string>();
    for (let step = 0; step < 6_000; step++) {
      const at = random.below(400);
      const value = randomString(random);
      const known = held.get(at);
      if (known !== undefined) {
        lookup.remove(at);
        strings.clear(at);
        held.delete(at);
      }
      if (![...held.values()].includes(value) && random.chance(0.8)) {
        strings.set(at, value);
        lookup.add(at);
        held.set(at, value);
      }
      const other = random.below(400);
      expect(strings.get(other)).toBe(held.get(other));
      expect(strings.has(other)).toBe(held.has(other));
      expect(strings.equals(other, value)).toBe(held.get(other) === value);
      const [a, b] = [held.get(at), held.get(other)];
      if (a !== undefined && b !== undefined) expect(sign(strings.compare(at, other))).toBe(orderOf(a, b));
      if (step === 3_000) {
        for (const number of [...held.keys()].filter((each) => each >= 100)) {
          lookup.remove(number);
          strings.clear(number);
          held.delete(number);
        }
        strings.trim(100);
        lookup.trim();
      }
      if (step % 500 > 0) continue;
      expect(lookup.size).toBe(held.size);
      for (const [number, text] of held) expect(lookup.find(text)).toBe(number);
      expect(lookup.find("not there")).toBeUndefined();
    }
  });

  it("columns and facets have the value of each slot, and facets the slots of each value", () => {
    const random = new SimRandom(seed);
    const values = (): IndexValue => {
      const kind = random.below(seed === 1 ? 1 : seed + 2);
      if (kind === 0) return randomString(random);
      if (kind === 1) return null;
      if (kind === 2) return random.chance(0.5);
      return random.below(30) - 10.5;
    };
    const column = new Column();
    const facet = new Facet();
    const held = new Map<number, IndexValue>();
    for (let step = 0; step < 3000; step++) {
      const slot = random.below(300);
      const value = step % 3 === 0 ? `unique ${step}` : values();
      const isNew = !held.has(slot);
      if (!isNew && random.chance(0.3)) {
        facet.remove(slot);
        column.set(slot, null);
        held.delete(slot);
      } else {
        if (isNew) facet.add(slot, value);
        else {
          facet.remove(slot);
          facet.add(slot, value);
        }
        column.set(slot, value);
        held.set(slot, value);
      }
      expect(column.get(slot)).toBe(held.get(slot) ?? null);
      expect(facet.get(slot)).toBe(held.get(slot) ?? null);
      const other = random.below(300);
      expect(column.is(other, value)).toBe((held.get(other) ?? null) === value);
      expect(facet.is(other, value)).toBe(held.has(other) && held.get(other) === value);
      if (held.has(slot) && held.has(other))
        expect(sign(facet.compare(slot, other))).toBe(sign(column.compare(slot, other)));
      if (step % 200 > 0) continue;
      const counts = new Map([...facet.counts()].map((each) => [each.value, each.count]));
      const expected = new Map<IndexValue, number>();
      for (const each of held.values()) expected.set(each, (expected.get(each) ?? 0) + 1);
      expect(counts).toEqual(expected);
      expect(facet.size).toBe(expected.size);
      for (const each of expected.keys()) {
        const slots = [...held].filter(([, of]) => of === each).map(([at]) => at);
        expect([...facet.slots(each)].sort((a, b) => a - b)).toEqual(slots.sort((a, b) => a - b));
        expect(facet.count(each)).toBe(slots.length);
      }
    }
  });

  it("a search of texts finds each that contains the needle, and no other", () => {
    const random = new SimRandom(seed);
    const texts = new Texts();
    const held = new Map<number, string>();
    for (let step = 0; step < 4000; step++) {
      const slot = random.below(1500);
      const text = random.chance(0.2) ? "" : randomString(random);
      texts.set(slot, text);
      held.set(slot, text);
      if (step % 20 > 0) continue;
      const needle = randomString(random) || "a";
      const [from, to] = [random.below(3), 3 + random.below(4)].map((blocks) => blocks * BLOCK) as [
        number,
        number,
      ];
      const marks = new Uint8Array(1500);
      const count = texts.search(needle, { from, to }, marks);
      const expected = [...held].filter(([at, of]) => at >= from && at < to && of.includes(needle));
      const found = [...marks.keys()].filter((at) => marks[at] === 1);
      expect(found).toEqual(expected.map(([at]) => at).sort((a, b) => a - b));
      expect(count).toBe(found.length);
    }
    for (const [slot, text] of held) expect(texts.get(slot)).toBe(text);
  });

  it("texts that are loaded together are those that are set one by one", () => {
    const random = new SimRandom(seed);
    const texts = new Texts();
    const held: string[] = [];
    for (let slice = 0; slice < 5; slice++) {
      const some = Array.from({ length: random.below(3 * BLOCK) }, () => randomString(random));
      texts.load(held.length, some);
      held.push(...some);
      texts.set(held.length, "one more");
      held.push("one more");
    }
    for (const [slot, text] of held.entries()) expect(texts.get(slot)).toBe(text);
  });
});

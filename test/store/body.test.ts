import { describe, expect, it } from "vitest";
import { Body } from "../../src/core/store/engine/body.ts";
import { SimRandom } from "./sim-random.ts";

type Value = Record<string, unknown> & { id: string };

describe("a body", () => {
  it("is the JSON of each version, however an entity is altered", () => {
    for (let seed = 1; seed <= 60; seed++) {
      const random = new SimRandom(seed);
      let body = Body.of(anEntity(random), "entity");
      for (let version = 0; version < 20; version++) {
        if (random.chance(0.3)) body.copy();
        const next = altered(random.chance(0.5) ? body.copy<Value>() : { ...body.draft<Value>() }, random);
        body = body.next(next, "entity");

        expect(body.text).toBe(JSON.stringify(next));
        expect(body.length).toBe(body.text.length);
        expect(body.copy()).toStrictEqual(JSON.parse(JSON.stringify(next)));
      }
    }
  });

  it("returns a separate copy to each caller", () => {
    const body = hot({ id: "a", list: [{ n: 1 }], deep: { inner: { n: 1 } } });

    const copy = body.copy<{ list: { n: number }[]; deep: { inner: { n: number } } }>();
    copy.list[0]!.n = 2;
    copy.deep.inner.n = 2;

    expect(body.copy()).toEqual({ id: "a", list: [{ n: 1 }], deep: { inner: { n: 1 } } });
  });

  it("gives each writer its own fields, and shares their values, frozen", () => {
    for (const body of [
      Body.from('{"id":"a","n":1,"deep":{"list":[{"n":1}]}}'),
      hot({ id: "a", n: 1, deep: { list: [{ n: 1 }] } }),
    ]) {
      const draft = body.draft<{ n: number; deep: { list: { n: number }[] } }>();
      draft.n = 2;

      expect(() => draft.deep.list.push({ n: 2 })).toThrow(TypeError);
      expect(() => Object.assign(draft.deep.list[0]!, { n: 2 })).toThrow(TypeError);
      expect(body.copy()).toEqual({ id: "a", n: 1, deep: { list: [{ n: 1 }] } });
    }
  });

  it("does not freeze what a caller passed or received to keep", () => {
    const given = { id: "a", deep: { list: [1] } };
    const next = hot({ id: "a", deep: { list: [] } }).next(given, "entity");
    const copy = next.copy<typeof given>();
    next.draft();

    given.deep.list.push(2);
    copy.deep.list.push(3);

    expect(next.copy()).toEqual({ id: "a", deep: { list: [1] } });
  });

  it("does not share what a caller passed", () => {
    const body = hot({ id: "a", list: [1] });
    const added = { n: 1 };

    const next = body.next({ id: "a", list: [1, added] } as Value, "entity");
    added.n = 2;

    expect(next.copy()).toEqual({ id: "a", list: [1, { n: 1 }] });
  });

  it("keeps keys with a meaning in JavaScript", () => {
    const text = '{"id":"a","__proto__":{"x":[1]},"constructor":{"y":1}}';
    const body = hot(JSON.parse(text));

    const copy = body.copy<Value>();
    const next = body.next({ ...copy, constructor: { y: 2 } } as unknown as Value, "entity");

    expect(JSON.stringify(copy)).toBe(text);
    expect(Object.getPrototypeOf(copy)).toBe(Object.prototype);
    expect(next.text).toBe('{"id":"a","__proto__":{"x":[1]},"constructor":{"y":2}}');
    expect(JSON.stringify(next.copy())).toBe(next.text);
  });

  it.each([
    ["a date", () => ({ id: "a", at: new Date(0) })],
    ["a value with toJSON", () => ({ id: "a", at: { toJSON: () => 1 } })],
    ["an entity with toJSON", () => ({ id: "a", at: 1, toJSON: () => ({ id: "a", at: 2 }) })],
    ["numbers that JSON has not", () => ({ id: "a", at: [Number.NaN, -0, Number.POSITIVE_INFINITY] })],
    ["minus zero", () => ({ id: "a", at: -0 })],
    ["a field without a value", () => ({ id: "a", none: undefined, at: 0 })],
    ["a function", () => ({ id: "a", at: () => 0 })],
    ["holes in a list", () => ({ id: "a", at: [0, undefined, () => 0] })],
    ["fields in another order", () => ({ at: 0, id: "a" })],
    ["an instance of a class", () => ({ id: "a", at: new Map([[1, 1]]) })],
    ["a lone surrogate", () => ({ id: "a", at: "\ud800 and é and \u2028" })],
  ])("accepts %s as JSON does", (_, make) => {
    for (const at of [0, [], [0], { n: 0 }]) {
      const next = hot({ id: "a", at }).next(make() as Value, "entity");

      expect(next.text).toBe(JSON.stringify(make()));
      expect(next.copy()).toStrictEqual(JSON.parse(JSON.stringify(make())));
      expect(next.next(next.copy<Value>(), "entity").text).toBe(next.text);
    }
  });

  it("refuses what is not JSON and names the entity", () => {
    const cycle: Record<string, unknown> = { id: "a" };
    cycle.list = [cycle];

    expect(() => hot({ id: "a", list: [] }).next(cycle as Value, 'Job "a"')).toThrow(
      /^Job "a" cannot be stored/,
    );
    expect(() => hot({ id: "a", n: 0 }).next({ id: "a", n: 1n } as unknown as Value, 'Job "a"')).toThrow(
      /^Job "a" cannot be stored/,
    );
  });

  it("accepts deeply nested values", () => {
    let deep: unknown = 0;
    for (let level = 0; level < 1000; level++) deep = [deep];
    const body = hot({ id: "a", deep });

    const next = body.next({ ...body.copy<Value>(), more: 1 } as Value, "entity");

    expect(next.text).toBe(JSON.stringify({ id: "a", deep, more: 1 }));
  });
});

/** A body that was used often enough to be kept in parts. */
function hot(entity: object): Body {
  let body = Body.of(entity as Value, "entity");
  for (let version = 0; version < 3; version++) body = body.next(body.copy<Value>(), "entity");
  return body;
}

function anEntity(random: SimRandom): Value {
  const fields = Array.from({ length: random.below(6) }, (_, at) => [`f${at}`, aValue(random, 3)]);
  return { id: "a", ...Object.fromEntries(fields) };
}

function aValue(random: SimRandom, depth: number): unknown {
  const simple = [0, -1.5, "", "text", 'é "\\ \n', true, false, null];
  if (depth === 0 || random.chance(0.4)) return simple[random.below(simple.length)];
  const values = Array.from({ length: random.below(4) }, () => aValue(random, depth - 1));
  return random.chance(0.5) ? values : Object.fromEntries(values.map((value, at) => [`k${at}`, value]));
}

/** The entity with some of it altered in place, replaced, added or removed. */
function altered(entity: Value, random: SimRandom): Value {
  const next: Value = random.chance(0.5) ? { ...entity } : entity;
  for (const [key, field] of Object.entries(next)) {
    if (key === "id") continue;
    const choice = random.below(20);
    if (choice === 0) delete next[key];
    else if (choice === 1) next[key] = undefined;
    else if (choice < 6) next[key] = aValue(random, 3);
    else if (Array.isArray(field) && choice < 12) next[key] = [...field, aValue(random, 2)];
    else if (Array.isArray(field) && !Object.isFrozen(field) && choice < 14)
      field.splice(random.below(field.length + 1), 1);
  }
  if (random.chance(0.1)) next[`new${random.below(100)}`] = aValue(random, 2);
  return next;
}

import { expect, it } from "vitest";
import { TableIndex } from "../../src/core/store/engine/table-index.ts";
import type { TableSpec } from "../../src/core/store/store.ts";

const SPEC: TableSpec = {
  name: "Thing",
  version: 1,
  entity: true,
  index: () => ({}),
  facets: ["kind"],
  sorted: ["at"],
};

const record = (n: number) => ({ values: { kind: n % 3, at: n, name: `n${n % 50}` }, text: `Thing ${n}` });

/** Everything that an index answers about what is in it. */
function expectToHold(index: TableIndex, held: ReadonlyMap<string, number>): void {
  expect(index.size).toBe(held.size);
  const slots = new Set<number>();
  for (const [id, n] of held) {
    const slot = index.slotOf(id)!;
    slots.add(slot);
    expect(slot).toBeLessThan(index.capacity);
    expect([index.idOf(slot), index.textOf(slot)]).toEqual([id, `thing ${n}`]);
    expect(index.recordOf(slot).values).toEqual(record(n).values);
  }
  expect(slots.size).toBe(held.size);
  for (const kind of [0, 1, 2]) {
    const own = [...held].filter(([, n]) => n % 3 === kind).map(([id]) => id);
    expect([...index.facet("kind")!.slots(kind)].map((slot) => index.idOf(slot)).sort()).toEqual(own.sort());
  }
  const inOrder: (string | undefined)[] = [];
  index.order("at")!.ascend({ matches: () => true, visit: (slot) => inOrder.push(index.idOf(slot)) > 0 });
  expect(inOrder).toEqual([...held].sort(([, a], [, b]) => a - b).map(([id]) => id));
}

it("an index that was large releases memory as entities are removed, and grows again", () => {
  const index = new TableIndex(SPEC);
  const held = new Map<string, number>();
  const put = (n: number) => {
    index.put(`t${n}`, record(n));
    held.set(`t${n}`, n);
  };
  const remove = (n: number) => {
    index.delete(`t${n}`);
    held.delete(`t${n}`);
  };
  for (let n = 0; n < 20_000; n++) put(n);
  index.order("at");

  for (let n = 0; n < 19_900; n++) remove(n);
  for (let n = 20_000; n < 20_500; n++) put(n);
  for (let n = 19_900; n < 20_000; n++) remove(n);

  expect(index.capacity).toBe(500);
  expectToHold(index, held);
  for (let n = 30_000; n < 36_000; n++) put(n);
  expect(index.capacity).toBe(6500);
  expectToHold(index, held);
});

it("has exactly what was put into it, in any order of puts and removals", () => {
  let seed = 7;
  const random = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return seed % below;
  };
  const index = new TableIndex(SPEC);
  const held = new Map<string, number>();
  for (let round = 0; round < 12; round++) {
    const [puts, removals] = [random(9000), random(9000)];
    for (let i = 0; i < puts; i++) {
      const n = random(20_000);
      index.put(`t${n}`, record(n));
      held.set(`t${n}`, n);
    }
    const ids = [...held.keys()];
    const newestFirst = random(2) === 0;
    for (const id of (newestFirst ? ids.reverse() : ids).slice(0, removals)) {
      index.delete(id);
      held.delete(id);
    }
    expectToHold(index, held);
  }
});

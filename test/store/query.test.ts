import { describe, expect, it } from "vitest";
import { TableIndex } from "../../src/core/store/engine/table-index.ts";
import { countByValue, findSlots } from "../../src/core/store/query.ts";
import type { Condition, IndexValue, ListQuery, TableSpec } from "../../src/core/store/store.ts";
import { SimRandom } from "./sim-random.ts";

const SPEC: TableSpec = {
  name: "Thing",
  version: 1,
  entity: true,
  index: () => ({}),
  facets: ["status", "owner"],
  sorted: ["at", "name"],
  sparse: ["end"],
  tallies: [{ by: "end", fields: ["status"] }],
};

interface Thing {
  readonly id: string;
  readonly values: Readonly<Record<string, IndexValue>>;
  readonly text: string;
}

const STATUSES = ["new", "done", "failed", null, true, 3];
const ERRORS = ["ECONNREFUSED 10.0.0.1", "Timed out", "The Straße is closed", "İstanbul", "aaa"];

function makeThing(random: SimRandom, number: number): Thing {
  const name = `Audit ${random.below(60)}`;
  const error = random.chance(0.3) ? `\n${ERRORS[random.below(ERRORS.length)]}` : "";
  const id = `t${number}`;
  const owner = random.chance(0.5) ? `o${random.below(400)}` : null;
  return {
    id,
    values: {
      ...{ status: STATUSES[random.below(STATUSES.length)]!, owner, name, at: random.below(500) },
      end: random.chance(0.7) ? random.below(500) : null,
    },
    text: `${id}\n${name}${error}`,
  };
}

/** What a query gives that reads everything. */
function naive(things: readonly Thing[], { where = {}, search = "", sort, skip = 0, limit = 50 }: ListQuery) {
  const matches = ({ id, values, text }: Thing) =>
    text.toLowerCase().includes(search.toLowerCase()) &&
    Object.entries(where).every(([field, condition]) =>
      meets((field === "id" ? id : values[field]) ?? null, condition!),
    );
  const descending = sort!.startsWith("-");
  const field = descending ? sort!.slice(1) : sort!;
  const found = things.filter(matches).sort((a, b) => {
    const [one, other] = [a, b].map(({ values }) => values[field]! as number | string);
    if (one !== other) return (one! < other! ? -1 : 1) * (descending ? -1 : 1);
    return a.id < b.id ? -1 : 1;
  });
  return { ids: found.slice(skip, skip + limit).map(({ id }) => id), total: found.length, all: found };
}

function meets(value: IndexValue, condition: Condition): boolean {
  if (Array.isArray(condition)) return condition.includes(value);
  if (condition === null || typeof condition !== "object") return value === condition;
  if ("contains" in condition)
    return typeof value === "string" && value.toLowerCase().includes(condition.contains.toLowerCase());
  const { gte, lt } = condition as { gte?: number; lt?: number };
  if (typeof value !== "number") return false;
  return (gte === undefined || value >= gte) && (lt === undefined || value < lt);
}

function pickQuery(random: SimRandom): ListQuery {
  const pick = <T>(of: readonly T[]) => of[random.below(of.length)]!;
  const where: Record<string, Condition> = {};
  if (random.chance(0.4))
    where.status = random.chance(0.5) ? pick(STATUSES) : [pick(STATUSES), pick(STATUSES)];
  if (random.chance(0.2)) where.owner = pick([null, "o7", "o399", { contains: "O3" }]);
  if (random.chance(0.2)) where.at = { gte: random.below(400), lt: 450 };
  if (random.chance(0.3))
    where.end = random.chance(0.5) ? { gte: random.below(500) } : { gte: random.below(400), lt: 450 };
  if (random.chance(0.2)) where.name = pick<Condition>(["Audit 7", { contains: "IT 1" }]);
  if (random.chance(0.1)) where.id = [`t${random.below(900)}`, `t${random.below(900)}`, "t1"];
  const needles = ["audit 1", "AUDIT", "t1", "econnrefused", "straße", "i̇", "aa", "no such", "\n", "7\n", ""];
  return {
    where,
    ...(random.chance(0.7) && { search: pick(needles) }),
    sort: pick(["at", "-at", "name", "-name"]),
    skip: random.chance(0.5) ? 0 : random.below(300),
    limit: pick([0, 1, 10, 50, 2000]),
  };
}

describe.each([1, 2, 3])("seed %i", (seed) => {
  it("a list, its total, its cursors and its counts are those of a search through everything", async () => {
    const random = new SimRandom(seed);
    const index = new TableIndex(SPEC);
    const things = new Map<string, Thing>();
    for (let round = 0; round < 250; round++) {
      for (let change = 0; change < 20; change++) {
        const thing = makeThing(random, random.below(900));
        if (random.chance(0.15)) {
          index.delete(thing.id);
          things.delete(thing.id);
          continue;
        }
        index.put(thing.id, thing);
        things.set(thing.id, thing);
      }
      const query = pickQuery(random);
      const { ids, total, all } = naive([...things.values()], query);
      const idsOf = (slots: readonly number[]) => slots.map((slot) => index.idOf(slot));
      const { slots, next, ...page } = await findSlots(index, query, (found) => found);
      expect({ ids: idsOf(slots), ...page }, JSON.stringify(query)).toEqual({ ids, total });
      if (next) {
        const after = { ...query, skip: 0, after: next };
        const rest = await findSlots(index, after, (found) => found);
        const from = query.skip! + query.limit!;
        const following = all.slice(from, from + query.limit!).map(({ id }) => id);
        expect(idsOf(rest.slots), JSON.stringify(after)).toEqual(following);
      }
      const counts: Record<string, number> = {};
      for (const { values } of all) counts[String(values.status)] = (counts[String(values.status)] ?? 0) + 1;
      expect(await countByValue(index, "status", query), JSON.stringify(query)).toEqual(counts);
    }
  });
});

it("a search among very many finds what it found, unless it was changed in the meantime", async () => {
  const index = new TableIndex(SPEC);
  const thing = (number: number, text: string) => ({
    values: { status: "new", owner: null, name: "n", at: number },
    text,
  });
  const count = 230_000;
  for (let number = 0; number < count; number++)
    index.put(`t${number}`, thing(number, `t${number} ${number % 1000 === 7 ? "Needle" : "hay"}`));
  const page = (query: ListQuery) =>
    findSlots(index, { search: "NEEDLE", sort: "at", limit: 3, ...query }, ({ slots, total }) => ({
      ids: slots.map((slot) => index.idOf(slot)),
      total,
    }));

  expect(await page({})).toEqual({ ids: ["t7", "t1007", "t2007"], total: count / 1000 });
  expect(await page({ where: { status: "new" }, skip: 1 })).toMatchObject({ total: count / 1000 });
  const searching = page({});
  index.put("t7", thing(7, "hay"));
  index.delete("t1007");
  index.put("another", thing(0, "hay"));
  expect(await searching).toEqual({ ids: ["t2007", "t3007", "t4007"], total: count / 1000 - 2 });
});

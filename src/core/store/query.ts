import { andThen, type MaybePromise } from "../base/maybe-promise.ts";
import { compareValues } from "./engine/column.ts";
import type { TableIndex } from "./engine/table-index.ts";
import { BLOCK } from "./engine/texts.ts";
import { classOfSpan } from "./span-class.ts";
import type { Condition, IndexValue, ListQuery, LiveValues, Position } from "./store.ts";

/** The slots of one page of a query, in order, and how many match in all. */
export interface SlotPage {
  readonly slots: number[];
  readonly total: number;
  /** Where the page ends; absent where it is the last one. */
  readonly next?: Position | undefined;
}

type Test = (slot: number) => boolean;

/** A search through the texts of more slots than this yields to other work in between. */
const SLICE = 400 * BLOCK;
/** Texts of fewer candidates than one in so many are searched one by one. */
const FEW_TEXTS = 16;
/** A condition is tested with each value of a facet that has no more than this many. */
const FEW_VALUES = 100;

/**
 * Answers a query from a table's index. `use` is called in the same moment: later the slots may be free, or have other
 * entities.
 */
export function findSlots<T>(
  index: TableIndex,
  query: ListQuery,
  use: (found: SlotPage) => T,
): MaybePromise<T> {
  return andThen(planOf(index, query), (plan): MaybePromise<T> => use(page(index, query, plan)));
}

/** How many entities match, by their value of a facet, or by the class of a span. */
export async function countByValue(
  index: TableIndex,
  field: string,
  query: ListQuery,
): Promise<Record<string, number>> {
  return andThen(planOf(index, query), (plan) => countsBy(index, field, plan));
}

/** The sums of a number of the entities that match, by their value of a facet. */
export async function sumByValue(
  index: TableIndex,
  { field, number }: { readonly field: string; readonly number: string },
  query: ListQuery,
): Promise<Record<string, number>> {
  known(index, number);
  return andThen(planOf(index, query), ({ tests, candidates }) => {
    const facet = index.facet(field);
    if (facet === undefined) throw new TypeError(`Table ${index.spec.name} has no facet "${field}"`);
    const numberAt = laidOver(index, number, query.live) ?? ((slot: number) => index.valueOf(number, slot));
    const matches = all(tests);
    const byCode = new Map<number, number>();
    for (const slot of candidates?.slots() ?? index.slots()) {
      const value = numberAt(slot);
      if (typeof value !== "number" || !matches(slot)) continue;
      const code = facet.codeAt(slot);
      byCode.set(code, (byCode.get(code) ?? 0) + value);
    }
    const sums = [...byCode].filter(([, sum]) => sum !== 0);
    return Object.fromEntries(sums.map(([code, sum]) => [String(facet.valueOf(code)), sum]));
  });
}

function countsBy(index: TableIndex, field: string, { tests, candidates }: Plan): Record<string, number> {
  const facet = index.facet(field);
  if (facet === undefined) return countsOfSpan(index, field, { tests, candidates });
  const counts: [IndexValue, number][] = [];
  if (tests.length === 0) for (const { value, count } of facet.counts()) counts.push([value, count]);
  else {
    const matches = all(tests);
    const byCode = new Map<number, number>();
    for (const slot of candidates?.slots() ?? index.slots()) {
      if (!matches(slot)) continue;
      const code = facet.codeAt(slot);
      byCode.set(code, (byCode.get(code) ?? 0) + 1);
    }
    for (const [code, count] of byCode) counts.push([facet.valueOf(code), count]);
  }
  return Object.fromEntries(counts.map(([value, count]) => [String(value), count]));
}

function countsOfSpan(
  index: TableIndex,
  field: string,
  { tests, candidates }: Pick<Plan, "tests" | "candidates">,
): Record<string, number> {
  const matches = all(tests);
  const counts = new Map<number | null, number>();
  for (const slot of candidates?.slots() ?? index.slots()) {
    if (!matches(slot)) continue;
    const span = index.valueOf(field, slot);
    const value = typeof span === "number" ? classOfSpan(span) : null;
    counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  return Object.fromEntries([...counts].map(([value, count]) => [String(value), count]));
}

function planOf(index: TableIndex, query: ListQuery): MaybePromise<Plan> {
  const conditions = Object.entries(query.where ?? {}).filter(
    (entry): entry is [string, Condition] => entry[1] !== undefined,
  );
  for (const [field] of conditions) known(index, field);
  const needle = query.search?.toLowerCase() ?? "";
  if (needle === "") return planWith(index, conditions, query.live, undefined);
  const candidates = fewest(index, conditions)?.count ?? index.size;
  return andThen(searchTexts(index, needle, candidates), (found) =>
    planWith(index, conditions, query.live, found),
  );
}

/** What is left to check once the texts were searched, which takes its time: in the same moment, facets may get other values. */
function planWith(
  index: TableIndex,
  conditions: readonly [string, Condition][],
  live: LiveValues | undefined,
  found: FoundTexts | undefined,
): Plan {
  const where = conditions.flatMap((each) => byValues(index, each));
  const tests = where.map(([field, condition]) => {
    const values = laidOver(index, field, live);
    if (!values) return testOf(index, field, condition);
    const matches = matcher(condition);
    return (slot: number) => matches(values(slot));
  });
  const candidates = fewest(index, where);
  if (found === undefined) return { tests, candidates, total: totalOf(index, where) };
  const isFewer = found.hits && found.hits.count < (candidates?.count ?? Number.POSITIVE_INFINITY);
  return {
    tests: [...tests, found.test],
    candidates: isFewer ? found.hits : candidates,
    total: where.length === 0 && found.isExact ? found.hits?.count : undefined,
  };
}

/** A condition on a facet as the list of the values that meet it now; none if all of them do. */
function byValues(index: TableIndex, [field, condition]: [string, Condition]): [string, Condition][] {
  const facet = index.facet(field);
  if (facet === undefined || facet.size > FEW_VALUES) return [[field, condition]];
  const values = [...facet.counts()].map(({ value }) => value).filter(matcher(condition));
  return values.length === facet.size ? [] : [[field, values]];
}

interface Plan {
  readonly tests: readonly Test[];
  readonly candidates: Candidates | undefined;
  /** Number of matches, where it is known without looking at them. */
  readonly total: number | undefined;
}

function page(index: TableIndex, query: ListQuery, plan: Plan): SlotPage {
  const { field, descending } = readSort(index, query.sort);
  const skip = query.skip ?? 0;
  const limit = query.limit ?? 50;
  const live = laidOver(index, field, query.live);
  const keyOf = live ?? ((slot: number) => index.valueOf(field, slot));
  const start = query.after && startAfter(index, { field, descending, after: query.after, keyOf });
  const matches = all(plan.tests);
  const { candidates } = plan;
  let total = plan.total ?? (candidates === undefined ? undefined : countOf(candidates, matches));
  if (total !== undefined && total <= skip) return { slots: [], total };
  // One more than the page has tells whether it is the last one.
  const reach = limit === 0 ? 0 : skip + limit + 1;
  const isNear = isSoonFound({ total, reach, candidates, size: index.size });
  const order = isNear && !live ? index.order(field) : undefined;
  let found: number[] = [];
  if (order === undefined) {
    const source = candidates?.slots() ?? index.slots();
    const compare = live ? byLive(index, live, descending) : index.comparison(field, descending);
    ({ found, total } = best(source, { matches, isAfter: start?.isAfter, reach, compare }));
  } else {
    // Where the number of matches is not known, the walk counts them, unless it starts in the middle.
    if (start) total ??= countOf({ slots: () => index.slots() }, matches);
    let seen = 0;
    const visit: Test = (slot) => {
      if (start && !start.isAfter(slot)) return true;
      seen++;
      if (found.length < reach) found.push(slot);
      return total === undefined || found.length < reach;
    };
    const walk = { matches, visit, from: start?.mayFollow };
    if (descending) {
      order.descend({ ...walk, ties: (a, b) => index.valueOf(field, a) === index.valueOf(field, b) });
    } else order.ascend(walk);
    total ??= seen;
  }
  const slots = found.slice(skip, skip + limit);
  const last = slots.at(-1);
  const isLast = last === undefined || found.length <= skip + limit;
  return { slots, total, next: isLast ? undefined : { value: keyOf(last), id: index.idOf(last)! } };
}

/** What follows a position in an order. */
function startAfter(
  index: TableIndex,
  order: {
    readonly field: string;
    readonly descending: boolean;
    readonly after: Position;
    readonly keyOf: (slot: number) => IndexValue;
  },
): { readonly isAfter: Test; readonly mayFollow: Test } {
  const { field, descending, after, keyOf } = order;
  const sign = descending ? -1 : 1;
  // Ids are distinct: they follow the direction where they are sorted by, and ascend where values are equal.
  const value = field === "id" ? after.id : after.value;
  const away = (slot: number) => sign * compareValues(keyOf(slot), value);
  return {
    isAfter: (slot) => {
      const distance = away(slot);
      return distance > 0 || (distance === 0 && field !== "id" && index.idOf(slot)! > after.id);
    },
    mayFollow: (slot) => away(slot) >= 0,
  };
}

/** Whether scanning the table in order costs less than checking every candidate and sorting the matches. */
function isSoonFound(page: {
  readonly total: number | undefined;
  readonly reach: number;
  readonly candidates: Candidates | undefined;
  readonly size: number;
}): boolean {
  const { total, reach, candidates, size } = page;
  if (candidates === undefined || total === undefined) return true;
  return (reach / total) * size < candidates.count;
}

function all(tests: readonly Test[]): Test {
  const [first, second] = tests;
  if (first === undefined) return () => true;
  if (second === undefined) return first;
  return (slot) => tests.every((test) => test(slot));
}

function countOf(candidates: Pick<Candidates, "slots">, matches: Test): number {
  let count = 0;
  for (const slot of candidates.slots()) if (matches(slot)) count++;
  return count;
}

/** The first matches from unordered slots: keeps only as many as are needed. */
function best(
  source: Iterable<number>,
  {
    matches,
    isAfter,
    reach,
    compare,
  }: {
    readonly matches: Test;
    readonly isAfter: Test | undefined;
    readonly reach: number;
    readonly compare: (a: number, b: number) => number;
  },
): { readonly found: number[]; readonly total: number } {
  let total = 0;
  let kept: number[] = [];
  for (const slot of source) {
    if (!matches(slot)) continue;
    total++;
    if (isAfter && !isAfter(slot)) continue;
    kept.push(slot);
    // Twice the reach, so that sorting is rare and each sort drops half.
    if (kept.length >= 2 * reach + 1024) kept = kept.sort(compare).slice(0, reach);
  }
  return { found: kept.sort(compare).slice(0, reach), total };
}

/** The values of a field with the live ones laid over those of the index; nothing where there are none. */
function laidOver(
  index: TableIndex,
  field: string,
  live: LiveValues | undefined,
): ((slot: number) => IndexValue) | undefined {
  const own = live?.values?.[field];
  if (own && own.size > 0) {
    const bySlot = new Map<number | undefined, number>();
    for (const [id, value] of own) bySlot.set(index.slotOf(id), value);
    return (slot) => bySlot.get(slot) ?? index.valueOf(field, slot);
  }
  const { elapsed } = live ?? {};
  if (elapsed?.field !== field) return undefined;
  const statuses = new Set<IndexValue>(elapsed.status);
  return (slot) => {
    if (!statuses.has(index.valueOf("status", slot))) return index.valueOf(field, slot);
    return elapsed.now - Number(index.valueOf(elapsed.since, slot));
  };
}

function byLive(
  index: TableIndex,
  live: (slot: number) => IndexValue,
  descending: boolean,
): (a: number, b: number) => number {
  const byId = index.comparison("id");
  const sign = descending ? -1 : 1;
  return (a, b) => sign * compareValues(live(a), live(b)) || byId(a, b);
}

function readSort(index: TableIndex, sort: string | undefined): { field: string; descending: boolean } {
  const text = sort ?? (index.hasField("created_at") ? "-created_at" : "id");
  const descending = text.startsWith("-");
  const field = descending ? text.slice(1) : text;
  known(index, field);
  return { field, descending };
}

function known(index: TableIndex, field: string): void {
  // The fields are known from the first entity on.
  if (index.hasField(field) || index.size === 0) return;
  throw new TypeError(`Table ${index.spec.name} has no index field "${field}"`);
}

interface Candidates {
  readonly count: number;
  readonly slots: () => Iterable<number>;
}

/** The smallest set of slots that an equality, or a range of a field that is kept in order, narrows the query to. */
function fewest(index: TableIndex, where: readonly [string, Condition][]): Candidates | undefined {
  let found: Candidates | undefined;
  for (const [field, condition] of where) {
    const candidates = candidatesOf(index, field, condition) ?? candidatesIn(index, field, condition);
    if (candidates !== undefined && candidates.count < (found?.count ?? Number.POSITIVE_INFINITY))
      found = candidates;
  }
  return found;
}

function candidatesOf(index: TableIndex, field: string, condition: Condition): Candidates | undefined {
  const values = equalities(condition);
  if (values === undefined) return undefined;
  if (field === "id") {
    const slots = values.map((id) => index.slotOf(String(id))).filter((slot) => slot !== undefined);
    return { count: slots.length, slots: () => slots };
  }
  const facet = index.facet(field);
  if (facet === undefined) return undefined;
  const count = values.reduce((sum: number, value) => sum + facet.count(value), 0);
  const slots = () =>
    values.length === 1 ? facet.slots(values[0]!) : values.flatMap((value) => [...facet.slots(value)]);
  return { count, slots };
}

/** Those in a range of numbers, and what is ordered behind numbers where it has no end. */
function candidatesIn(index: TableIndex, field: string, condition: Condition): Candidates | undefined {
  if (condition === null || typeof condition !== "object" || isList(condition)) return undefined;
  if (!("gte" in condition || "lt" in condition)) return undefined;
  const { gte, lt } = condition;
  if ((gte !== undefined && typeof gte !== "number") || (lt !== undefined && typeof lt !== "number"))
    return undefined;
  const reaches = (limit: number) => (slot: number) => compareValues(index.valueOf(field, slot), limit) >= 0;
  return index
    .order(field)
    ?.between(gte === undefined ? () => true : reaches(gte), lt === undefined ? () => false : reaches(lt));
}

/** The total where one facet, or nothing, decides it. */
function totalOf(index: TableIndex, where: readonly [string, Condition][]): number | undefined {
  if (where.length > 1) return undefined;
  const only = where[0];
  return only === undefined ? index.size : candidatesOf(index, ...only)?.count;
}

/** The values of an equality, each once; `undefined` for other conditions. */
function equalities(condition: Condition): readonly IndexValue[] | undefined {
  if (isList(condition)) return [...new Set(condition)];
  return condition === null || typeof condition !== "object" ? [condition] : undefined;
}

function isList(condition: Condition): condition is readonly IndexValue[] {
  return Array.isArray(condition);
}

function testOf(index: TableIndex, field: string, condition: Condition): Test {
  const values = equalities(condition);
  const facet = index.facet(field);
  if (values?.length === 1) {
    const [wanted] = values;
    const column = index.column(field);
    if (column === undefined) return (slot) => index.valueOf(field, slot) === wanted;
    if (facet === undefined) return (slot) => column.is(slot, wanted!);
    const code = facet.codeOf(wanted!);
    return (slot) => facet.codeAt(slot) === code;
  }
  const matches = matcher(condition);
  if (facet === undefined) return (slot) => matches(index.valueOf(field, slot));
  // A facet has few distinct values: each is tested once.
  const known: (boolean | undefined)[] = [];
  return (slot) => {
    const code = facet.codeAt(slot);
    known[code] ??= matches(facet.valueOf(code));
    return known[code];
  };
}

/** Whether a value meets a condition. */
export function matcher(condition: Condition): (value: IndexValue) => boolean {
  const values = equalities(condition);
  return values === undefined ? rangeOrPart(condition) : among(values);
}

function among(values: readonly IndexValue[]): (value: IndexValue) => boolean {
  const set = new Set(values);
  return (value) => set.has(value);
}

function rangeOrPart(condition: Condition): (value: IndexValue) => boolean {
  if (condition === null || typeof condition !== "object" || isList(condition)) return () => false;
  if ("idIn" in condition) throw new TypeError("This store does not relate tables");
  if ("contains" in condition) {
    const part = condition.contains.toLowerCase();
    return (value) => typeof value === "string" && value.toLowerCase().includes(part);
  }
  const { gte, lt } = condition;
  return (value) =>
    (gte === undefined || (typeof value === typeof gte && value! >= gte)) &&
    (lt === undefined || (typeof value === typeof lt && value! < lt));
}

/** What a search of the texts has found. */
interface FoundTexts {
  readonly test: Test;
  /** The slots that have the text, at least; missing where it is tested with each slot. */
  readonly hits: Candidates | undefined;
  /** Whether it is no more than those. */
  readonly isExact: boolean;
}

/** Searches the texts, in slices if there are many, so that a search does not block everything else. */
function searchTexts(index: TableIndex, needle: string, candidates: number): MaybePromise<FoundTexts> {
  const includes: Test = (slot) => index.textOf(slot).includes(needle);
  if (candidates * FEW_TEXTS < index.capacity) return { test: includes, hits: undefined, isExact: false };
  const marks = new Uint8Array(index.capacity);
  let count = 0;
  const search = (from: number) => {
    count += index.searchTexts(needle, { from, to: Math.min(from + SLICE, marks.length) }, marks);
  };
  const isMarked: Test = (slot) => marks[slot] === 1;
  const hits = () => ({ count, slots: () => marked(marks) });
  if (marks.length <= SLICE) {
    search(0);
    return { test: isMarked, hits: hits(), isExact: true };
  }
  return searchInSlices(marks.length, search).then(() => {
    // A slot may have another entity by now; checking again costs only if it was found.
    const test: Test = (slot) => isMarked(slot) && includes(slot);
    return { test, hits: hits(), isExact: false };
  });
}

async function searchInSlices(length: number, search: (from: number) => void): Promise<void> {
  for (let from = 0; from < length; from += SLICE) {
    if (from > 0) await new Promise((resolve) => setImmediate(resolve));
    search(from);
  }
}

function* marked(marks: Uint8Array): Generator<number, void> {
  for (let slot = marks.indexOf(1); slot >= 0; slot = marks.indexOf(1, slot + 1)) yield slot;
}

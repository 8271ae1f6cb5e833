import { isDeepStrictEqual } from "node:util";
import { getOrMake } from "../../../core/base/get-or-make.ts";
import { withoutIds } from "../../../core/models/failure.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import type { AnswerOf } from "../answers/answer-of.ts";
import type { ComparisonSchema } from "../answers/entities.ts";
import { runsOf } from "../job/runs.ts";
import { hasEnded, isLine } from "../job/step-view.ts";
import type { SeenParts } from "../parts.ts";
import { type Call, collectCalls, spentOn } from "../views/calls.ts";
import { SHOWN_ENTRIES } from "../views/waterfall.ts";

/** Cases of a job whose names are read. */
const NAMED_CASES = 2000;

/** A call that two jobs have: in cases of the same ref or name, with the same name, whatever the numbers in both. */
export type ComparedPair = AnswerOf<typeof ComparisonSchema>["calls"][number];

/** A call of one of the two jobs. */
export type ComparedCall = NonNullable<ComparedPair["left"]>;

/** The calls of the last runs of two jobs, in the order of the first one. */
export async function compareJobs(
  parts: SeenParts,
  [left, right]: readonly [StoredJob, StoredJob],
): Promise<ComparedPair[]> {
  const [ours, theirs] = await Promise.all([readWork(parts, left, true), readWork(parts, right, false)]);
  // What runs each night has a date or an id in the names of its cases.
  const cases = pairUp(ours.cases, theirs.cases, [
    ({ ref }) => ref,
    ({ name }) => name,
    ({ name }) => withoutIds(name),
  ]);
  const scopes = new Map(cases.map(([one, other]) => [other.id, one.id]));
  const scopeOf = ({ call: { case_id } }: NamedCall) => case_id && (scopes.get(case_id) ?? case_id);
  const keyOf = (named: NamedCall, name: string) => JSON.stringify([scopeOf(named), named.call.call, name]);
  const pairs = pairUp(ours.calls, theirs.calls, [
    (named) => keyOf(named, named.call.name),
    (named) => keyOf(named, withoutIds(named.call.name)),
  ]);
  const partners = new Map(pairs.map(([one, other]) => [other, one]));
  const found = new Map(pairs);
  return inOrder(
    ours.calls,
    theirs.calls.map((call) => partners.get(call) ?? call),
  ).map((call) => (call.isOurs ? toPair(call, found.get(call)) : toPair(undefined, call)));
}

interface NamedCall {
  readonly isOurs: boolean;
  readonly caseName: string | null;
  readonly call: Call;
}

async function readWork({ jobs, cases }: SeenParts, job: StoredJob, isOurs: boolean) {
  const [entries, { items }] = await Promise.all([
    jobs.logEnds(job.id, SHOWN_ENTRIES),
    cases.list({ where: { job_id: job.id }, sort: "created_at", limit: NAMED_CASES }),
  ]);
  const names = new Map(items.map(({ id, name }) => [id, name]));
  const run = runsOf(job, entries).at(-1)!;
  const calls = collectCalls(
    run.entries.map(({ entry }) => entry),
    run.before,
  ).filter(isLine);
  return {
    cases: items,
    calls: calls.map((call) => ({
      isOurs,
      caseName: call.case_id === undefined ? null : (names.get(call.case_id) ?? call.case_id),
      call,
    })),
  };
}

/** Pairs the items of two lists by the first key, and what is left by the next one; of equal keys, in their order. */
function pairUp<T>(
  left: readonly T[],
  right: readonly T[],
  keys: readonly ((item: T) => string)[],
): [T, T][] {
  const pairs: [T, T][] = [];
  const [free, rest] = [new Set(left), new Set(right)];
  for (const keyOf of keys) {
    const waiting = new Map<string, T[]>();
    for (const one of free) getOrMake(waiting, keyOf(one), () => []).push(one);
    for (const other of rest) {
      const one = waiting.get(keyOf(other))?.shift();
      if (one === undefined) continue;
      pairs.push([one, other]);
      free.delete(one);
      rest.delete(other);
    }
  }
  return pairs;
}

/** All of both; one that only the second has is after the one that it follows there. */
function inOrder<T>(left: readonly T[], right: readonly T[]): T[] {
  const known = new Set(left);
  const after = new Map<T | undefined, T[]>();
  let previous: T | undefined;
  for (const key of right) {
    if (known.has(key)) previous = key;
    else after.set(previous, [...(after.get(previous) ?? []), key]);
  }
  return [...(after.get(undefined) ?? []), ...left.flatMap((key) => [key, ...(after.get(key) ?? [])])];
}

function toPair(one: NamedCall | undefined, other: NamedCall | undefined): ComparedPair {
  const { caseName, call } = (one ?? other)!;
  const [left, right] = [one && toCompared(one.call), other && toCompared(other.call)];
  return {
    case_name: caseName,
    name: call.name,
    kind: call.entry?.kind ?? call.call,
    differs: left && right ? differencesOf(left, right) : ["missing"],
    left: left ?? null,
    right: right ?? null,
  };
}

function differencesOf(left: ComparedCall, right: ComparedCall): ComparedPair["differs"] {
  const fields = ["status", "attempts", "input", "output", "error"] as const;
  return fields.filter((field) => !isDeepStrictEqual(left[field], right[field]));
}

function toCompared(call: Call): ComparedCall {
  const { entry, answer } = call;
  const end = call.end ?? (entry ? Date.parse(entry.at) : call.cut);
  return {
    step: call.id,
    status: entry?.error ? "failed" : hasEnded(call) ? "completed" : "open",
    duration: end === undefined ? null : Math.max(0, end - call.begun),
    cost: spentOn(call),
    attempts: call.attempts,
    input: entry?.input ?? null,
    output: answer?.answer ?? entry?.result ?? null,
    error: entry?.error?.message ?? null,
  };
}

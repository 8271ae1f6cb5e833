import { isDeepStrictEqual } from "node:util";
import type { StoredJob } from "../../../core/models/job.ts";
import { runsOf } from "../job/runs.ts";
import { hasEnded, isLine } from "../job/step-view.ts";
import type { AdminParts } from "../parts.ts";
import { type Call, collectCalls } from "../views/calls.ts";
import { SHOWN_ENTRIES } from "../views/waterfall.ts";

/** Cases of a job whose names are read. */
const NAMED_CASES = 2000;

/** A call of one of the two jobs. */
export interface ComparedCall {
  /** Names it in the address of its job's page. */
  readonly step: string;
  readonly status: "completed" | "failed" | "open";
  /** Milliseconds; `null` while it is open. */
  readonly duration: number | null;
  readonly cost: number;
  readonly attempts: number;
  readonly input: unknown;
  readonly output: unknown;
  readonly error: string | null;
}

/** A call that two jobs have: in a case of the same name, with the same name, and with the same number among several. */
export interface ComparedPair {
  readonly case_name: string | null;
  readonly name: string;
  readonly kind: string;
  /** What differs, durations and costs aside. */
  readonly differs: readonly ("missing" | "status" | "attempts" | "input" | "output" | "error")[];
  readonly left: ComparedCall | null;
  readonly right: ComparedCall | null;
}

/** The calls of the last runs of two jobs, in the order of the first one. */
export async function compareJobs(
  parts: AdminParts,
  [left, right]: readonly [StoredJob, StoredJob],
): Promise<ComparedPair[]> {
  const [ours, theirs] = await Promise.all([readCalls(parts, left), readCalls(parts, right)]);
  const keys = inOrder([...ours.keys()], [...theirs.keys()]);
  return keys.map((key) => toPair(ours.get(key), theirs.get(key)));
}

interface NamedCall {
  readonly caseName: string | null;
  readonly call: Call;
}

async function readCalls({ jobs, cases }: AdminParts, job: StoredJob): Promise<Map<string, NamedCall>> {
  const [entries, { items }] = await Promise.all([
    jobs.logEnds(job.id, SHOWN_ENTRIES),
    cases.list({ where: { job_id: job.id }, limit: NAMED_CASES }),
  ]);
  const names = new Map(items.map(({ id, name }) => [id, name]));
  const run = runsOf(job, entries).at(-1)!;
  const found = new Map<string, NamedCall>();
  const seen = new Map<string, number>();
  for (const call of collectCalls(run.entries.map(({ entry }) => entry)).filter(isLine)) {
    const caseName = call.case_id === undefined ? null : (names.get(call.case_id) ?? call.case_id);
    const base = JSON.stringify([caseName, call.call, call.name]);
    const n = (seen.get(base) ?? 0) + 1;
    seen.set(base, n);
    found.set(`${base}${n}`, { caseName, call });
  }
  return found;
}

/** All keys of both; one that only the second has is after the one that it follows there. */
function inOrder(left: readonly string[], right: readonly string[]): string[] {
  const known = new Set(left);
  const after = new Map<string | undefined, string[]>();
  let previous: string | undefined;
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
  const end = call.end ?? (entry ? Date.parse(entry.at) : undefined);
  return {
    step: call.id,
    status: entry?.error ? "failed" : hasEnded(call) ? "completed" : "open",
    duration: end === undefined ? null : Math.max(0, end - call.begun),
    cost: entry?.cost ?? 0,
    attempts: call.attempt,
    input: entry?.input ?? null,
    output: answer?.answer ?? entry?.result ?? null,
    error: entry?.error?.message ?? null,
  };
}

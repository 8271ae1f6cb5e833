import { exactAmount } from "../base/exact-amount.ts";
import { wellFormed } from "../base/well-formed.ts";
import type { ModelFacts, ModelUse } from "../models/model-use.ts";
import type { Store } from "../store/store.ts";
import type { Unit } from "./ledger.ts";

/** Rows that share a sum: jobs that call a model at the same time seldom write the same one. */
const PARTS = 8;
/** Rows read at a time. */
const PAGE = 1000;

/** One attempt to call a model. */
export interface ModelAttempt {
  readonly jobId: string;
  /** Slug of the agent. */
  readonly agent: string;
  readonly facts: ModelFacts | undefined;
  readonly cost: number;
  readonly isFailed: boolean;
}

/** The model that answered, or was asked. */
export function modelOf(facts: ModelFacts | undefined): string {
  return facts?.name ?? facts?.requested ?? "unknown";
}

/** Adds an attempt to the sums, in the unit that records it. */
export async function addModelUse(unit: Unit, attempt: ModelAttempt): Promise<void> {
  const { agent, facts, cost, isFailed } = attempt;
  const day = unit.now.slice(0, 10);
  const model = modelOf(facts);
  const id = [day, agent, encodeURIComponent(wellFormed(model)), partOf(attempt.jobId)].join("/");
  const empty = {
    calls: 0,
    failed: 0,
    input_tokens: 0,
    output_tokens: 0,
    cached_tokens: 0,
    reasoning_tokens: 0,
  };
  const add = (row: ModelUse): ModelUse => ({
    ...row,
    calls: row.calls + 1,
    failed: row.failed + Number(isFailed),
    input_tokens: row.input_tokens + (facts?.input_tokens ?? 0),
    output_tokens: row.output_tokens + (facts?.output_tokens ?? 0),
    cached_tokens: row.cached_tokens + (facts?.cached_tokens ?? 0),
    reasoning_tokens: row.reasoning_tokens + (facts?.reasoning_tokens ?? 0),
    cost: exactAmount(row.cost + cost),
  });
  if (await unit.tx.get("ModelUse", id)) await unit.tx.change("ModelUse", id, add);
  else await unit.tx.insert("ModelUse", add({ id, day, agent, model, ...empty, cost: 0 }));
}

/** What models were used for since a day, `YYYY-MM-DD`: one entry for each day, agent and model, the newest day first. */
export async function readModelUses(store: Store, since: string): Promise<Omit<ModelUse, "id">[]> {
  const sums = new Map<string, Omit<ModelUse, "id">>();
  for (let skip = 0; ; skip += PAGE) {
    const { items } = await store
      .table("ModelUse")
      .list({ where: { day: { gte: since } }, sort: "-day", limit: PAGE, skip });
    for (const { id: _, ...row } of items) {
      const key = JSON.stringify([row.day, row.agent, row.model]);
      const sum = sums.get(key);
      sums.set(key, sum ? addUp(sum, row) : row);
    }
    if (items.length < PAGE) return [...sums.values()];
  }
}

type Counts = Pick<
  ModelUse,
  "calls" | "failed" | "input_tokens" | "output_tokens" | "cached_tokens" | "reasoning_tokens" | "cost"
>;

/** The first with the numbers of both. */
export function addUp<T extends Counts>(sum: T, row: Counts): T {
  return {
    ...sum,
    calls: sum.calls + row.calls,
    failed: sum.failed + row.failed,
    input_tokens: sum.input_tokens + row.input_tokens,
    output_tokens: sum.output_tokens + row.output_tokens,
    cached_tokens: sum.cached_tokens + row.cached_tokens,
    reasoning_tokens: sum.reasoning_tokens + row.reasoning_tokens,
    cost: exactAmount(sum.cost + row.cost),
  };
}

/** The part of a sum that a job adds to. */
export function partOf(jobId: string): number {
  let hash = 0;
  for (let at = 0; at < jobId.length; at++) hash = (hash * 31 + jobId.charCodeAt(at)) | 0;
  return Math.abs(hash) % PARTS;
}

import { hash } from "node:crypto";
import { exactAmount, exactSum } from "../base/exact-amount.ts";
import { getOrMake } from "../base/get-or-make.ts";
import type { Store } from "../store/store.ts";
import type { Unit } from "./ledger.ts";
import { partOf } from "./model-uses.ts";

/** Who has spent something. */
export interface Spender {
  readonly agent: string;
  readonly jobId: string;
  /** Where that has a budget. */
  readonly workspace: string | undefined;
}

/** Adds what a job has spent to the sums of its agent and of its workspace, in the unit that records it. */
export async function addSpending(
  unit: Unit,
  { agent, jobId, workspace, cost }: Spender & { readonly cost: number },
): Promise<void> {
  if (cost <= 0) return;
  const day = unit.now.slice(0, 10);
  if (workspace !== undefined) await addToWorkspace(unit, { workspace, jobId, day, cost });
  const id = [agent, day.slice(0, 7), partOf(jobId)].join("/");
  if (!(await unit.tx.get("Spending", id))) await unit.tx.insert("Spending", { id, agent, days: {} });
  await unit.tx.change("Spending", id, (row) => ({
    ...row,
    days: { ...row.days, [day]: exactAmount((row.days[day] ?? 0) + cost) },
  }));
}

async function addToWorkspace(
  { tx }: Unit,
  { workspace, jobId, day, cost }: { workspace: string; jobId: string; day: string; cost: number },
): Promise<void> {
  const month = day.slice(0, 7);
  // A workspace may have any name.
  const id = [hash("sha256", workspace, "base64url"), month, partOf(jobId)].join("/");
  if (!(await tx.get("WorkspaceSpending", id)))
    await tx.insert("WorkspaceSpending", { id, workspace, month, days: {} });
  await tx.change("WorkspaceSpending", id, (row) => ({
    ...row,
    days: { ...row.days, [day]: exactAmount((row.days[day] ?? 0) + cost) },
  }));
}

/** What workspaces with a budget, or one of them, have spent on a day, `YYYY-MM-DD`, and in its month. */
export async function readWorkspaceSpending(
  store: Store,
  day: string,
  workspace?: string,
): Promise<ReadonlyMap<string, { readonly day: number; readonly month: number }>> {
  const where = { month: day.slice(0, 7), workspace };
  const { items } = await store.table("WorkspaceSpending").list({ where, limit: Number.POSITIVE_INFINITY });
  const sums = new Map<string, { day: number; month: number }>();
  for (const { workspace: name, days } of items) {
    const sum = getOrMake(sums, name, () => ({ day: 0, month: 0 }));
    for (const [one, cost] of Object.entries(days)) {
      sum.month = exactAmount(sum.month + cost);
      if (one === day) sum.day = exactAmount(sum.day + cost);
    }
  }
  return sums;
}

/** What an agent has spent on a day, `YYYY-MM-DD`, and in its month. */
export async function readSpending(
  store: Store,
  agent: string,
  day: string,
): Promise<{ readonly day: number; readonly month: number }> {
  const where = { agent, month: day.slice(0, 7) };
  const { items } = await store.table("Spending").list({ where, limit: Number.POSITIVE_INFINITY });
  const sums = items.flatMap(({ days }) => Object.entries(days));
  const sum = (of: readonly (readonly [string, number])[]) => exactSum(of.map(([, cost]) => cost));
  return { day: sum(sums.filter(([one]) => one === day)), month: sum(sums) };
}

/** What an agent has spent on a day, `YYYY-MM-DD`, UTC. */
export interface DaySpending {
  readonly agent: string;
  readonly day: string;
  readonly cost: number;
}

/** What agents have spent since a day, `YYYY-MM-DD`: all that was recorded, also of jobs that were deleted since. */
export async function readSpendingSince(store: Store, since: string): Promise<DaySpending[]> {
  const where = { month: { gte: since.slice(0, 7) } };
  const { items } = await store.table("Spending").list({ where, limit: Number.POSITIVE_INFINITY });
  const sums = new Map<string, DaySpending>();
  for (const { agent, days } of items) {
    for (const [day, cost] of Object.entries(days)) {
      if (day < since) continue;
      const key = `${day}/${agent}`;
      sums.set(key, { agent, day, cost: exactAmount((sums.get(key)?.cost ?? 0) + cost) });
    }
  }
  return [...sums.values()].sort((a, b) => (a.day < b.day ? -1 : a.day > b.day ? 1 : b.cost - a.cost));
}

/** Whether anything was spent before a month, `YYYY-MM`. */
export async function hasSpentBefore(store: Store, month: string): Promise<boolean> {
  const ids = await store.table("Spending").ids({ where: { month: { lt: month } }, sort: "id", limit: 1 });
  return ids.length > 0;
}

/** The sum of these. */
export function sumSpending(days: readonly DaySpending[]): number {
  return exactSum(days.map(({ cost }) => cost));
}

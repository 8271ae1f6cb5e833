import type { NamesOf } from "../base/refuse-unknown.ts";

/** What the jobs of an agent may cost in a time, in the currency in which the service counts cost. */
export interface BudgetOptions {
  /** In a day, UTC. @default no budget */
  readonly day?: number;
  /** In a month, UTC. @default no budget */
  readonly month?: number;
  /** Whether no more jobs are started once a budget is used up, until its time is over. @default false */
  readonly refuse?: boolean;
}

/** The names of a budget's options. */
export const BUDGET_NAMES: NamesOf<BudgetOptions> = { day: true, month: true, refuse: true };

export const PERIODS = ["day", "month"] as const;
export type Period = (typeof PERIODS)[number];

/** What is wrong with a budget; `undefined` if it is valid. */
export function problemOfBudget(budget: unknown): string | undefined {
  if (typeof budget !== "object" || budget === null) return "must be an object such as { month: 100 }";
  const { day, month, refuse } = budget as Record<string, unknown>;
  if (day === undefined && month === undefined) return "needs day or month";
  for (const amount of [day, month])
    if (amount !== undefined && !(Number.isFinite(amount) && (amount as number) > 0))
      return "must have amounts above 0";
  return refuse === undefined || typeof refuse === "boolean"
    ? undefined
    : "must have true or false as refuse";
}

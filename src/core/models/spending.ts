/** What some of an agent's jobs have cost in a month. */
export interface Spending {
  readonly id: string;
  /** Slug of the agent. */
  readonly agent: string;
  /** By the day on which it was spent, `YYYY-MM-DD`, UTC. */
  readonly days: Readonly<Record<string, number>>;
}

/** What some of the jobs of a workspace with a budget have cost in a month. */
export interface WorkspaceSpending {
  readonly id: string;
  readonly workspace: string;
  /** `YYYY-MM`, UTC. */
  readonly month: string;
  /** By the day on which it was spent, `YYYY-MM-DD`, UTC. */
  readonly days: Readonly<Record<string, number>>;
}

/** Says that a warning about a share of a budget was sent. */
export interface BudgetNotice {
  /** Agent, period and share. */
  readonly id: string;
  /** ISO 8601. */
  readonly at: string;
}

/** What an agent has spent of a budget. */
export interface BudgetUse {
  /** Slug of the agent. */
  readonly agent: string;
  readonly period: "day" | "month";
  /** `YYYY-MM-DD` or `YYYY-MM`, UTC. */
  readonly since: string;
  readonly budget: number;
  readonly spent: number;
  /** Whether new jobs are refused once it is used up. */
  readonly refuses: boolean;
}

import type { AttentionItem } from "../../../core/models/attention.ts";
import type { BudgetUse } from "../../../core/models/spending.ts";
import type { RangeName, Wellbeing } from "./well.ts";

/** Figures of the service, as a caller sees it. */
export interface Figures {
  readonly well: (range: RangeName) => Promise<Wellbeing>;
  readonly month: () => Promise<MonthView>;
  readonly budgets: () => Promise<readonly BudgetUse[]>;
  readonly attention: () => Promise<readonly AttentionItem[]>;
}

/** What all agents have spent; or what jobs have cost that a caller sees and that were created since then. */
export interface MonthView {
  /** Since midnight, UTC. */
  readonly today: number;
  /** Since the first day of the month, UTC. */
  readonly month: number;
  /** By the end of the month, if it continues as in the last seven days; null in the first day of a service. */
  readonly forecast: number | null;
}

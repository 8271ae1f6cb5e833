import { seesAgent } from "../../../core/entities/in-sight.ts";
import { sumCosts } from "../lists/sum-costs.ts";
import type { AdminParts, SeenParts } from "../parts.ts";
import type { Figures } from "./figures.ts";
import { readMonth } from "./month.ts";

/** Milliseconds for which the costs of what somebody sees are given again. */
const KEPT = 10_000;

/** The figures for a caller: nothing that it does not see changes them. */
export function figuresOf(
  { wellness, budgets, attention, store, clock }: AdminParts,
  { caller: { sight }, jobs, cases }: Pick<SeenParts, "caller" | "jobs" | "cases">,
): Figures {
  if (sight === undefined)
    return {
      well: (range) => wellness.read(range),
      month: () => readMonth({ store, clock }),
      budgets: () => budgets.list(),
      attention: () => attention.read(),
    };
  const who = JSON.stringify(sight);
  return {
    well: (range) => wellness.read(range, { jobs, who }),
    month: () =>
      wellness.keep("month", KEPT, who, async (now) => {
        const today = new Date(now).toISOString().slice(0, 10);
        const since = (day: string) => sumCosts(jobs, { where: { created_at: { gte: Date.parse(day) } } });
        const [ofToday, month] = await Promise.all([since(today), since(`${today.slice(0, 7)}-01`)]);
        return { today: ofToday, month, forecast: null };
      }),
    budgets: async () => (await budgets.list()).filter(({ agent }) => seesAgent(sight, agent)),
    attention: () => attention.seenBy(sight, { jobs, cases }),
  };
}

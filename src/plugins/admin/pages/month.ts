import { hasSpentBefore, readSpendingSince, sumSpending } from "../../../core/entities/spending.ts";
import type { Store } from "../../../core/store/store.ts";
import type { AdminParts } from "../parts.ts";
import type { MonthView } from "./figures.ts";

const DAY = 86_400_000;

/** Reads what this month has cost, exact at any size: the sums are kept when costs are recorded. */
export async function readMonth({ store, clock }: Pick<AdminParts, "store" | "clock">): Promise<MonthView> {
  const now = clock();
  const today = now.toISOString().slice(0, 10);
  const first = `${today.slice(0, 7)}-01`;
  const week = new Date(now.getTime() - 7 * DAY).toISOString().slice(0, 10);
  // The month that the week starts in has the first of this month, too.
  const days = await readSpendingSince(store, `${week.slice(0, 7)}-01`);
  const month = sumSpending(days.filter(({ day }) => day >= first));
  // Of whole days only: today is not over.
  const whole = days.filter(({ day }) => day >= week && day < today);
  const since = await firstDay(store, { week, oldest: days[0]?.day });
  const end = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1);
  const spentToday = sumSpending(days.filter(({ day }) => day === today));
  if (since === undefined || since === today) return { today: spentToday, month, forecast: null };
  const each = sumSpending(whole) / Math.round((Date.parse(today) - Date.parse(since)) / DAY);
  const left = (end - Date.parse(today)) / DAY - 1;
  const forecast = month - spentToday + Math.max(spentToday, each) + left * each;
  return { today: spentToday, month, forecast };
}

/** The first day of the last week on which the service existed: it spent something then, or before. */
async function firstDay(
  store: Store,
  { week, oldest }: { readonly week: string; readonly oldest: string | undefined },
): Promise<string | undefined> {
  const isOlder = (oldest !== undefined && oldest < week) || (await hasSpentBefore(store, week.slice(0, 7)));
  return isOlder ? week : oldest;
}

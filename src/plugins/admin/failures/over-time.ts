import { countOf } from "../../../core/base/count-of.ts";
import { escapeHtml } from "../../../core/base/escape-html.ts";
import type { Jobs } from "../../../core/entities/jobs.ts";

/** Columns of a sparkline. */
const COLUMNS = 14;

/** How many jobs failed for each reason in each part of a time, the oldest first. */
export async function readOverTime(
  jobs: Jobs,
  { since, now }: { readonly since: number; readonly now: number },
): Promise<(failure: string) => readonly number[]> {
  const step = (now - since) / COLUMNS;
  const counts = await Promise.all(
    Array.from({ length: COLUMNS }, (_, at) => {
      const from = since + at * step;
      // What failed in this moment is in the last one.
      const lt = at === COLUMNS - 1 ? now + 1 : from + step;
      return jobs.countBy("failure", { where: { status: "failed", finished_at: { gte: from, lt } } });
    }),
  );
  return (failure) => counts.map((one) => one[failure] ?? 0);
}

/** Small columns that say whether it is still happening; the numbers are in its description. */
export function renderSpark(counts: readonly number[], time: string): string {
  const most = Math.max(1, ...counts);
  const bars = counts.map((count, at) => {
    const height = count === 0 ? 1 : Math.max(2, Math.round((18 * count) / most));
    return `<rect class="${count === 0 ? "w-hatch" : "c-failed"}" x="${at * 6}" y="${20 - height}" width="4" height="${height}"/>`;
  });
  const last = counts.at(-1) ?? 0;
  const label = `Over the last ${time}: at most ${countOf(most, "job")} at a time, ${last === 0 ? "none" : countOf(last, "job")} at the end`;
  return `<svg class="spark" viewBox="0 0 ${counts.length * 6} 20" role="img" aria-label="${escapeHtml(label)}"><title>${escapeHtml(label)}</title>${bars.join("")}</svg>`;
}

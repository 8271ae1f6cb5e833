import { Cron } from "croner";
import type { Findings } from "../../../../src/cli/torture/trial.ts";
import type { Job } from "../../../../src/core/models/job.ts";
import type { Schedule } from "../../../../src/core/models/schedule.ts";
import { SCHEDULES } from "./plans.ts";

/** What is known of a schedule: its first planned time, and how it was when it was paused. */
export interface Watched {
  readonly first: string;
  readonly paused: Schedule;
}

/** Each planned time has become one job, or by its policy none. */
export function checkSchedules(
  jobs: readonly Job[],
  { watched, since }: { readonly watched: ReadonlyMap<string, Watched>; readonly since: string },
  findings: Findings,
): number {
  let count = 0;
  for (const { id, cron, overlap } of SCHEDULES) {
    const mine = jobs
      .filter(({ schedule }) => schedule?.id === id)
      .toSorted((a, b) => Date.parse(a.schedule!.at) - Date.parse(b.schedule!.at));
    count += mine.length;
    const known = watched.get(id)!;
    const times = mine.map(({ schedule }) => schedule!.at);
    for (const [at, time] of times.entries())
      if (times.indexOf(time) !== at) findings.doubled.push(`schedule ${id}: two jobs for ${time}`);
    // Where several instances were started, the first one had decided some times when the test read the first.
    const first = [known.first, ...times].filter((time) => time >= since).sort()[0]!;
    const planned = timesOf(cron, { ...known, first });
    const isPlanned = new Set(planned);
    for (const time of times)
      if (!isPlanned.has(time))
        findings.doubled.push(`schedule ${id}: a job for ${time}, which is not planned`);
    if (overlap !== "skip") {
      const has = new Set(times);
      for (const time of planned)
        if (!has.has(time)) findings.lost.push(`schedule ${id}: no job for ${time}`);
    }
    if (overlap !== "allow") checkApart(id, mine, findings);
    for (const job of mine)
      if (job.status !== "completed")
        findings.wrong.push(`job ${job.id} of schedule ${id} is ${job.status}: ${job.error}`);
  }
  return count;
}

/** Planned times from the first one to the last one that was decided. */
function timesOf(cron: string, { first, paused: { last } }: Watched): string[] {
  const times: string[] = [];
  if (!last) return times;
  const pattern = new Cron(cron, { timezone: "UTC" });
  let next: Date | null = new Date(Date.parse(first) - 1000);
  for (;;) {
    next = pattern.nextRun(next);
    if (!next || next.getTime() > Date.parse(last.at)) return times;
    times.push(next.toISOString());
  }
}

/** Where jobs must not overlap, each started after the one before had ended. */
function checkApart(id: string, jobs: readonly Job[], findings: Findings): void {
  for (const [at, job] of jobs.entries()) {
    const before = jobs[at - 1];
    if (before?.finished_at && Date.parse(before.finished_at) > Date.parse(job.created_at))
      findings.doubled.push(`schedule ${id}: job ${job.id} started before ${before.id} had ended`);
  }
}

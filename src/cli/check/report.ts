import type { CheckedJob } from "../../core/runs/check/check-job.ts";

/** What `svc check` found. */
export interface CheckReport {
  /** Open jobs in all. */
  readonly jobs: number;
  /** Those that continue. */
  readonly fit: number;
  /** Jobs that continue, and whose code no longer makes calls that are recorded. */
  readonly skipping: readonly CheckedJob[];
  /** Those that could not be judged. */
  readonly unsure: readonly CheckedJob[];
  /** Those that would not continue. */
  readonly problems: readonly CheckedJob[];
  readonly seconds: number;
}

/** Jobs that are named one by one. */
const NAMED = 50;

/** The exit code of `svc check`. */
export const CHECKED = { fit: 0, problems: 1, unsure: 3 } as const;

export function exitCodeOf({ problems, unsure }: CheckReport): number {
  if (problems.length > 0) return CHECKED.problems;
  return unsure.length > 0 ? CHECKED.unsure : CHECKED.fit;
}

/** A report for people. */
export function describeReport(report: CheckReport): string[] {
  const { jobs, fit, skipping, problems, unsure, seconds } = report;
  const lines = [`${countOf(jobs)} checked in ${seconds} s: ${fit} fit this code`];
  for (const [verdict, what] of Object.entries(WHAT)) {
    const count = [...problems, ...unsure].filter((job) => job.verdict === verdict).length;
    if (count > 0) lines.push(`${countOf(count)} ${what}`);
  }
  for (const job of [...problems, ...unsure].slice(0, NAMED)) {
    const { id, agent, from, to, expected, found, message } = job;
    lines.push("", `${id} (${agent} ${from ?? "of an unknown version"} → ${to ?? "gone"}): ${job.verdict}`);
    if (expected === null) lines.push(`  ${message}`);
    else lines.push(`  recorded: ${expected}`, `  now:      ${found ?? message}`);
  }
  const more = problems.length + unsure.length - NAMED;
  if (more > 0) lines.push("", `… and ${more} more: --json has all`);
  if (skipping.length > 0) {
    const calls = [...new Set(skipping.flatMap(({ skipped }) => skipped))];
    const named = calls.slice(0, CALLS).join(", ");
    lines.push(
      "",
      `${countOf(skipping.length)} of those that fit ${skipping.length === 1 ? "has" : "have"} recorded calls that this code no longer makes, which are skipped: ${named}${calls.length > CALLS ? ", …" : ""}`,
    );
  }
  return lines;
}

/** Calls that are named of all. */
const CALLS = 5;

const WHAT = {
  held: "would be held",
  fails: "would fail",
  waits: "would wait for an agent",
  unsure: "could not be judged",
};

function countOf(jobs: number): string {
  return `${jobs} open job${jobs === 1 ? "" : "s"}`;
}

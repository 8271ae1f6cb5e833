import type { CheckedJob } from "../../core/runs/check-job.ts";

/** What `svc check` found. */
export interface CheckReport {
  /** Open jobs in all. */
  readonly jobs: number;
  /** Those that continue. */
  readonly fit: number;
  /** Those that could not be judged. */
  readonly unsure: readonly CheckedJob[];
  /** Those that would not continue. */
  readonly problems: readonly CheckedJob[];
  readonly seconds: number;
}

/** Jobs that are named one by one. */
const NAMED = 50;

/** A report for people. */
export function describeReport({ jobs, fit, problems, unsure, seconds }: CheckReport): string[] {
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
  return lines;
}

const WHAT = {
  held: "would be held",
  fails: "would fail",
  waits: "would wait for an agent",
  unsure: "could not be judged",
};

function countOf(jobs: number): string {
  return `${jobs} open job${jobs === 1 ? "" : "s"}`;
}

import { countOf } from "../../core/base/count-of.ts";

/** The result of a torture test. */
export interface Verdict {
  readonly seed: number;
  readonly rounds: number;
  readonly kills: number;
  readonly seconds: number;
  readonly agents: readonly string[];
  /** Jobs whose start was acknowledged. */
  readonly jobs: number;
  /** Answers that were acknowledged. */
  readonly answers: number;
  /** Calls that were recorded. */
  readonly calls: number;
  /** Times that a job was interrupted and resumed. */
  readonly resumed: number;
  readonly lost: number;
  readonly doubled: number;
  /** Results, answers and events that came to something else, where the target can tell. */
  readonly swapped: number;
  readonly wrong: number;
  /** Jobs with an expired question: they are not compared with the job without kills. */
  readonly expired: number;
  /** What the target has counted beside its jobs. */
  readonly beside?: Readonly<Record<string, unknown>>;
  /** Everything that is not as it must be. */
  readonly problems: readonly string[];
  /** Kept if there are problems. */
  readonly dataDir: string | undefined;
  /** Command that repeats the test. */
  readonly repeat: string;
}

/** The verdict as text for people, with lines about what else was counted. */
export function describeVerdict(verdict: Verdict, beside: readonly string[] = []): string {
  const { problems, kills, jobs, answers, calls, resumed, lost, doubled, wrong, expired } = verdict;
  const shown = problems.slice(0, 20).map((problem) => `  - ${problem}`);
  return [
    `${countOf(kills, "kill")} in ${Math.round(verdict.seconds)} s, under load from ${verdict.agents.join(", ")}`,
    `${countOf(jobs, "job")}, ${countOf(calls, "recorded call")} and ${countOf(answers, "answer")} were acknowledged; jobs were resumed ${countOf(resumed, "time")}`,
    ...beside,
    `lost: ${lost}, finished steps that ran again: ${doubled}, jobs with a different outcome than without kills: ${wrong}`,
    ...(expired > 0
      ? [
          `in ${countOf(expired, "job")} a question expired, for example while the service was down: their outcome is not compared`,
        ]
      : []),
    ...shown,
    ...(problems.length > shown.length ? [`  … and ${problems.length - shown.length} more`] : []),
    problems.length === 0 ? "PASSED" : `FAILED; the data is in ${verdict.dataDir}`,
    `Repeat it with: ${verdict.repeat}`,
  ].join("\n");
}

/** What a trial has shown. */
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
  /** Times that a job was cut short and taken up again. */
  readonly resumed: number;
  readonly lost: number;
  readonly doubled: number;
  readonly wrong: number;
  /** Jobs with a question that ran out of time: they are not compared with the undisturbed one. */
  readonly expired: number;
  /** Each thing that is not as it must be. */
  readonly problems: readonly string[];
  /** Kept where there are problems. */
  readonly dataDir: string | undefined;
  /** Repeats the trial. */
  readonly repeat: string;
}

/** A verdict for people. */
export function describeVerdict(verdict: Verdict): string {
  const { problems, kills, jobs, answers, calls, resumed, lost, doubled, wrong, expired } = verdict;
  const shown = problems.slice(0, 20).map((problem) => `  - ${problem}`);
  return [
    `${kills} kills in ${Math.round(verdict.seconds)} s, under the load of ${verdict.agents.join(", ")}`,
    `${jobs} jobs, ${calls} recorded calls and ${answers} answers were acknowledged; jobs were taken up again ${resumed} times`,
    `lost: ${lost}, finished steps run again: ${doubled}, jobs that ended otherwise than undisturbed: ${wrong}`,
    ...(expired > 0
      ? [
          `in ${expired} jobs a question ran out of time, such as while the service was down: what they gave is not compared`,
        ]
      : []),
    ...shown,
    ...(problems.length > shown.length ? [`  … and ${problems.length - shown.length} more`] : []),
    problems.length === 0 ? "PASSED" : `FAILED; the data is kept in ${verdict.dataDir}`,
    `Repeat it with: ${verdict.repeat}`,
  ].join("\n");
}

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
  /** Results, answers and events that came to something else; only the mix can tell. */
  readonly swapped: number;
  readonly wrong: number;
  /** Jobs with an expired question: they are not compared with the job without kills. */
  readonly expired: number;
  /** What was done to the instances, by kind; absent for one service. */
  readonly strikes?: Readonly<Record<string, number>>;
  /** What the mix had beside its jobs; absent for agents of one's own. */
  readonly mix?: MixCounts;
  /** Everything that is not as it must be. */
  readonly problems: readonly string[];
  /** Kept if there are problems. */
  readonly dataDir: string | undefined;
  /** Command that repeats the test. */
  readonly repeat: string;
}

/** What the mix did beside starting and answering jobs. */
export interface MixCounts {
  /** Times that the service was started with other code. */
  readonly deploys: number;
  /** Times that a job was held because it did not fit the code. */
  readonly held: number;
  readonly children: number;
  /** Events that were sent to jobs. */
  readonly events: number;
  /** Jobs of schedules: planned times. */
  readonly scheduled: number;
  /** Effects in the journal of the agents: steps that really ran. */
  readonly effects: number;
  /** By how the instances ended that had the jobs before. */
  readonly takeOvers: Readonly<Record<"kill" | "hand-over", TakeOvers>>;
}

/** Jobs whose instance ended, and the seconds until another one had claimed them. */
export interface TakeOvers {
  readonly count: number;
  readonly median: number;
  readonly longest: number;
}

/** The verdict as text for people. */
export function describeVerdict(verdict: Verdict): string {
  const {
    problems,
    kills,
    jobs,
    answers,
    calls,
    resumed,
    lost,
    doubled,
    swapped,
    wrong,
    expired,
    mix,
    strikes,
  } = verdict;
  const shown = problems.slice(0, 20).map((problem) => `  - ${problem}`);
  return [
    `${kills} kills in ${Math.round(verdict.seconds)} s, under load from ${verdict.agents.join(", ")}`,
    ...(strikes
      ? [
          `instances: ${Object.entries(strikes)
            .map(([kind, count]) => `${kind} ${count}`)
            .join(", ")}`,
        ]
      : []),
    `${jobs} jobs, ${calls} recorded calls and ${answers} answers were acknowledged; jobs were resumed ${resumed} times`,
    ...(mix
      ? [
          `beside them: ${mix.children} children, ${mix.events} events, ${mix.scheduled} planned times of schedules, ${mix.effects} effects of steps; the code changed ${mix.deploys} times, and jobs that it did not fit were held ${mix.held} times`,
          ...(strikes ? [describeTakeOvers(mix.takeOvers)] : []),
          `lost: ${lost}, doubled: ${doubled}, swapped: ${swapped}, otherwise wrong: ${wrong}`,
        ]
      : [
          `lost: ${lost}, finished steps that ran again: ${doubled}, jobs with a different outcome than without kills: ${wrong}`,
        ]),
    ...(expired > 0
      ? [
          `in ${expired} jobs a question expired, for example while the service was down: their outcome is not compared`,
        ]
      : []),
    ...shown,
    ...(problems.length > shown.length ? [`  … and ${problems.length - shown.length} more`] : []),
    problems.length === 0 ? "PASSED" : `FAILED; the data is in ${verdict.dataDir}`,
    `Repeat it with: ${verdict.repeat}`,
  ].join("\n");
}

function describeTakeOvers(takeOvers: MixCounts["takeOvers"]): string {
  const parts = [
    ["after kills", takeOvers.kill],
    ["after SIGTERM", takeOvers["hand-over"]],
  ] as const;
  const texts = parts.map(
    ([when, { count, median, longest }]) => `${count} ${when} (median ${median} s, longest ${longest} s)`,
  );
  return `jobs that another instance claimed: ${texts.join(", ")}`;
}

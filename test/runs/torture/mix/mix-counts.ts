/** What the mix did beside starting and answering jobs. */
export interface MixCounts extends Readonly<Record<string, unknown>> {
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
  /** The job that waited longest. */
  readonly of: string | undefined;
}

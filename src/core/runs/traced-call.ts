/** A call of a job's handler, of which a plugin makes a span. */
export interface TracedCall {
  readonly jobId: string;
  /** The case, or nothing for the job itself. */
  readonly caseId: string | undefined;
  readonly position: number;
}

/** Says with which headers other services continue the trace at a call; none where nothing makes spans. */
export type TraceSource = (call: TracedCall) => Promise<Readonly<Record<string, string>> | undefined>;

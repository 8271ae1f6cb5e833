/** The life of this instance among those of its store. */
export interface Member {
  /** Whether it has run its probe job: until then it is not ready. Only where several instances share the store. */
  readonly probe: "pending" | "done" | undefined;
  /** Resumes what others, or earlier processes, have left; `aliveUntil` is the last sign of life of the process before, ISO 8601. */
  start(aliveUntil: string | undefined): Promise<void>;
  /** Claims nothing more. Its own jobs are still its own. */
  close(): void;
  /** Once its jobs are given up. */
  leave(): Promise<void>;
}

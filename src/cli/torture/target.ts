import type { ServiceClient } from "../job/service-client.ts";
import type { Program } from "./service-process.ts";
import type { Subject } from "./subject.ts";
import type { Findings, Outcome, TrialJob } from "./trial.ts";

/** Work of one round beside starting jobs, answering and following them. */
export interface Under {
  readonly round: number;
  readonly jobs: readonly TrialJob[];
  readonly isOver: { readonly value: boolean };
  readonly random: () => number;
}

/** What a torture test works with: the agents of a user, or of the test. */
export interface Target extends Program {
  /** Slugs of the tested agents; known once it is prepared. */
  readonly agents: readonly string[];
  /** Before the first round. */
  prepare(client: ServiceClient): Promise<void>;
  /** The jobs to start in a round. */
  jobsOf(round: number, random: () => number): TrialJob[];
  /** Anything else that happens under load; the kill cuts its requests. */
  disturb?(client: ServiceClient, under: Under): Promise<unknown>;
  /** Changes the code: processes that start from now on have it. */
  deploy?(): void;
  /** After each start. */
  inspect?(client: ServiceClient, findings: Findings): Promise<void>;
  /** After the last kill: brings everything to its end, with other code if that needs it. */
  settle?(
    subject: Subject,
    client: ServiceClient,
    jobs: readonly TrialJob[],
    findings: Findings,
  ): Promise<ServiceClient>;
  /** Compares a finished job with what it must be. */
  check(job: TrialJob, outcome: Outcome, findings: Findings): void;
  /** Checks what no job of the test is by itself; resolves with what it has counted. */
  checkRest?(client: ServiceClient, findings: Findings): Promise<Readonly<Record<string, unknown>>>;
}

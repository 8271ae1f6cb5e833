import type { EntityStatus } from "./entity-status.ts";

/** Settings of an agent from a control system; parameters stay encrypted. */
export interface AgentSetting {
  /** The agent's slug. */
  readonly id: string;
  readonly onboarding_status: string | null;
  readonly parameters_encrypted: string | null;
  /**
   * Since when the agent starts no new jobs, who paused it, and until when, if that ends by itself; absent where it is not
   * paused.
   */
  readonly paused?: { readonly at: string; readonly by: string; readonly until?: string } | undefined;
  readonly updated_at: string;
}

/** Start and end of the audit log, in one row with the id `head`. */
export interface AuditHead {
  readonly id: string;
  /**
   * Days that have lines, `YYYY-MM-DD`: the keys of the log. A line's day is never earlier than that of the
   * line before it.
   */
  readonly first_day: string;
  readonly last_day: string;
  /** The line before the first kept one, and the last line. */
  readonly base: { readonly n: number; readonly hash: string };
  readonly last: { readonly n: number; readonly hash: string };
}

/** A fingerprint that shows at a start whether a key has changed. The key cannot be derived from it. */
export interface KeyMark {
  readonly id: string;
  readonly salt: string;
  readonly hash: string;
  /** The service that had the key, for people. Marks of earlier versions have none. */
  readonly service?: string | undefined;
}

/** Which job was created with an `Idempotency-Key`. */
export interface KeyedJob {
  /** Hash of the key. */
  readonly id: string;
  readonly job_id: string;
}

/** What one transaction removed. */
export interface RemovedBatch {
  /** Slug of the agent. */
  readonly agent: string;
  readonly status: Extract<EntityStatus, "completed" | "failed" | "cancelled">;
  readonly jobs: number;
  readonly cases: number;
  /** When the first and the last of them ended, ISO 8601. */
  readonly oldest: string;
  readonly newest: string;
}

/** What retention has removed, in one row with the id `state`. */
export interface RetentionState {
  readonly id: string;
  /** When it last removed something, ISO 8601. */
  readonly at: string;
  /** Total removed since `since`. */
  readonly jobs: number;
  readonly cases: number;
  readonly since: string;
  readonly last: RemovedBatch;
}

/** What a person has decided about a reason of failures. */
export interface FailureMark {
  /** The reason. */
  readonly id: string;
  /** `resolved` until a job fails for it again, `muted` until somebody opens it again. */
  readonly state: "resolved" | "muted";
  readonly by: string;
  readonly at: string;
  /** When the last job failed that was known to the person who resolved it; null of one that is muted. */
  readonly until: string | null;
}

/** Which code of an agent its suspended jobs were checked against. */
export interface CheckedCode {
  /** The agent's slug. */
  readonly id: string;
  /** Fingerprints of all its versions. */
  readonly code: string;
  /** Checks of this code that have started; one that ends its process is not repeated forever. */
  readonly tries: number;
  readonly is_done: boolean;
}

/** A job that lost data which `svc store repair` could not save: the next start ends it and removes this row. */
export interface DamagedJob {
  /** The job's. */
  readonly id: string;
  /** When the repair was made. */
  readonly at: string;
  /** What was lost, for people. */
  readonly what: readonly string[];
}

/** What the jobs of all instances have of a limit of an agent. There is a row while one of them has something. */
export interface SharedLimit {
  readonly id: string;
  /** The jobs that count, by id, with the number of the run that was let begin. */
  readonly holders: Readonly<Record<string, number>>;
  /** Of a rate limit: when its last jobs started, by the store's clock, in milliseconds since 1970. */
  readonly starts?: readonly number[];
}

/** A living instance of the service, one of those that share a store. Each writes its own row again and again. */
export interface Instance {
  /** The `owner` of the jobs that it runs. A new one for each start. */
  readonly id: string;
  /** When it started, and when it was last seen alive, by the store's clock, ISO 8601. */
  readonly started_at: string;
  readonly seen_at: string;
  /** Name of its machine or container. */
  readonly host: string;
  /** The agents that it hosts, with all their versions: `slug@version`. */
  readonly agents: readonly string[];
  /** Names of the RSA keys that it reads parameters with. Earlier versions do not have it. */
  readonly keys?: readonly string[];
  /** Jobs that it runs now, and the most that it runs. */
  readonly running: number;
  readonly places: number;
}

/** A job with which an instance tests the store at its start. It exists for some milliseconds. */
export interface ProbeJob {
  readonly id: string;
  readonly created_at: string;
  /** The instance that has claimed it. */
  readonly owner: string | null;
  readonly run_count: number;
  readonly steps: number;
}

/** What people tell instances apart by, in pages and in the log. */
export function shortInstance<Id extends string | undefined>(id: Id): Id {
  return id?.slice(0, 8) as Id;
}

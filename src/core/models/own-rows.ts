import type { EntityStatus } from "./entity-status.ts";

/** What a control system has told an agent to keep; parameters stay encrypted. */
export interface AgentSetting {
  /** The agent's slug. */
  readonly id: string;
  readonly onboarding_status: string | null;
  readonly parameters_encrypted: string | null;
  readonly updated_at: string;
}

/** Where the audit log begins and ends, in one row with the id `head`. */
export interface AuditHead {
  readonly id: string;
  /** Days that hold lines, `YYYY-MM-DD`: the keys of the log. A day never comes before the one of an earlier line. */
  readonly first_day: string;
  readonly last_day: string;
  /** The line in front of the first that is kept, and the last line. */
  readonly base: { readonly n: number; readonly hash: string };
  readonly last: { readonly n: number; readonly hash: string };
}

/** What tells at a start whether the API key is still the one of the last start. The key cannot be found from it. */
export interface KeyMark {
  readonly id: string;
  readonly salt: string;
  readonly hash: string;
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
  /** Removed in all since `since`. */
  readonly jobs: number;
  readonly cases: number;
  readonly since: string;
  readonly last: RemovedBatch;
}

/** A job that lost data which `svc store repair` could not save; it must not go on by itself. */
export interface DamagedJob {
  /** The job's. */
  readonly id: string;
  /** When the repair was made. */
  readonly at: string;
  /** What was lost, for people. */
  readonly what: readonly string[];
}

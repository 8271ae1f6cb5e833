import type { AccessKeys } from "../../access/access-keys.ts";
import type { People } from "../../access/people.ts";
import type { Receiver } from "../../access/receivers.ts";
import type { RevokedTokens } from "../../access/revoked-tokens.ts";
import type { SigningKeys } from "../../access/signing-keys.ts";
import type { AgentSettings } from "../../agents/agent-settings.ts";
import type { Parameters } from "../../agents/parameters.ts";
import type { AgentRegistry } from "../../agents/registry.ts";
import type { AuditLog } from "../../audit/audit-log.ts";
import type { Threads } from "../../conversations/threads.ts";
import type { Cases } from "../../entities/cases.ts";
import type { Files } from "../../entities/files.ts";
import type { Jobs } from "../../entities/jobs.ts";
import type { Attention } from "../../runs/attention/attention.ts";
import type { Runner } from "../../runs/runner.ts";
import type { BackupState } from "../../store/backup/backups.ts";
import type { Store } from "../../store/store.ts";
import type { EnvelopeGate } from "../envelope-gate.ts";
import type { JobFeed } from "../job-feed.ts";
import type { JobTokens } from "../job-tokens.ts";
import type { LiveStreams } from "../live-streams.ts";
import type { Sights } from "../seen.ts";
import type { ServiceState } from "../service-state.ts";

/** What the machine routes use. */
export interface MachineParts {
  /** Path in front of the routes. */
  readonly prefix: string;
  readonly agents: AgentRegistry;
  readonly settings: AgentSettings;
  readonly parameters: Parameters;
  readonly envelopes: EnvelopeGate;
  readonly runner: Runner;
  readonly files: Files;
  readonly jobs: Jobs;
  readonly cases: Cases;
  readonly store: Store;
  readonly feed: JobFeed;
  readonly threads: Threads;
  readonly streams: LiveStreams;
  readonly access: AccessKeys;
  readonly signing: SigningKeys;
  readonly people: People;
  readonly revoked: RevokedTokens;
  /** Agents, jobs, cases, runner and threads as a caller sees them. */
  readonly seen: Sights["of"];
  readonly tokens: JobTokens;
  readonly audit: AuditLog;
  readonly attention: Attention;
  readonly state: ServiceState;
  /** The backups of the store, if they are made. */
  readonly backups: () => BackupState | undefined;
  readonly clock: () => Date;
  /** Whether jobs are reported to a control system. */
  readonly hasControlSystem: boolean;
  /** Jobs that may wait before new ones are refused. */
  readonly maxQueuedJobs: number;
  /** Who sends signed events. */
  readonly receivers: readonly Receiver[];
}

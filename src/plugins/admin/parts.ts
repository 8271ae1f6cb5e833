import type { AccessKeys } from "../../core/access/access-keys.ts";
import type { PersonProvider } from "../../core/access/identity-provider.ts";
import type { People } from "../../core/access/people.ts";
import type { RevokedTokens } from "../../core/access/revoked-tokens.ts";
import type { SigningKeys } from "../../core/access/signing-keys.ts";
import type { AgentSettings } from "../../core/agents/agent-settings.ts";
import type { Parameters } from "../../core/agents/parameters.ts";
import type { AgentRegistry } from "../../core/agents/registry.ts";
import type { AuditLog } from "../../core/audit/audit-log.ts";
import type { Caller } from "../../core/audit/caller.ts";
import type { Logger } from "../../core/base/log.ts";
import type { Redactor } from "../../core/base/redactor.ts";
import type { Seal } from "../../core/base/seal.ts";
import type { Threads } from "../../core/conversations/threads.ts";
import type { ControlSystem } from "../../core/delivery/control-system.ts";
import type { Cases } from "../../core/entities/cases.ts";
import type { Files } from "../../core/entities/files.ts";
import type { Jobs } from "../../core/entities/jobs.ts";
import type { Clients } from "../../core/http/clients.ts";
import type { Gate } from "../../core/http/gate.ts";
import type { JobFeed } from "../../core/http/job-feed.ts";
import type { Sights } from "../../core/http/seen.ts";
import type { ServiceState } from "../../core/http/service-state.ts";
import type { Retention } from "../../core/retention/retention.ts";
import type { Attention } from "../../core/runs/attention/attention.ts";
import type { Budgets } from "../../core/runs/queue/budgets.ts";
import type { Runner } from "../../core/runs/runner.ts";
import type { ResolvedOptions } from "../../core/service/options.ts";
import type { PluginReport } from "../../core/service/set-up-plugins.ts";
import type { BackupState } from "../../core/store/backup/backups.ts";
import type { Store } from "../../core/store/store.ts";
import type { AnswerLinks } from "./answer-links/answer-links.ts";
import type { Assets } from "./assets.ts";
import type { BulkOperations } from "./bulk/operations.ts";
import type { ConsoleBuffer } from "./console/buffer.ts";
import type { Extensions } from "./extension.ts";
import type { JobLog } from "./job-log/job-log.ts";
import type { LiveHub } from "./live/hub.ts";
import type { ResolvedAdminOptions } from "./options.ts";
import type { Figures } from "./pages/figures.ts";
import type { Wellness } from "./pages/well.ts";
import type { Renderer } from "./renderer.ts";
import type { SavedViews } from "./saved-views/saved-views.ts";
import type { Sessions } from "./sessions.ts";
import type { OneTimeLinks } from "./sign-in-links.ts";

/** What every page uses: nothing in it shows what somebody may not see. */
export interface CommonParts {
  readonly options: ResolvedAdminOptions;
  readonly service: ResolvedOptions;
  readonly state: ServiceState;
  readonly seen: Sights["of"];
  readonly settings: AgentSettings;
  readonly clients: Clients;
  readonly log: Logger;
  readonly redactor: Redactor;
  readonly clock: () => Date;
  readonly assets: Assets;
  readonly renderer: Renderer;
  readonly extensions: Extensions;
  /** Whether there is more than one key, or people sign in. */
  readonly isShared: () => boolean;
  /** The lines that a job has logged: of jobs that the caller has found. */
  readonly jobLog: Pick<JobLog, "read">;
  readonly hub: LiveHub;
  /** Ids of jobs that are stuck, to be compared with jobs that the caller has found, and the marks of reasons. */
  readonly attention: Pick<Attention, "stuck" | "marks">;
  /** Files: of jobs and questions that the caller has found. */
  readonly files: Files;
  /** The links that answer a question: of questions that the caller has found. */
  readonly answerLinks: AnswerLinks;
}

/** What the caller of a request sees of the service: other jobs, cases and agents do not exist in it. */
export interface SeenParts extends CommonParts {
  readonly caller: Caller;
  readonly jobs: Jobs;
  readonly cases: Cases;
  readonly agents: AgentRegistry;
  readonly runner: () => Runner;
  readonly threads: Threads;
  readonly figures: Figures;
  readonly bulk: BulkOperations;
  /** Whether an answer to a question of this job waits, too; also for who sees its questions only. */
  readonly isJobHeld: (id: string) => Promise<boolean>;
}

/** What the pages and routes use that are for people who see everything. */
export interface AdminParts extends CommonParts {
  readonly jobs: Jobs;
  readonly cases: Cases;
  readonly agents: AgentRegistry;
  readonly runner: () => Runner;
  readonly threads: Threads;
  readonly access: AccessKeys;
  readonly people: People;
  readonly revoked: RevokedTokens;
  readonly audit: AuditLog;
  readonly signing: Pick<SigningKeys, "present">;
  readonly retention: Retention;
  readonly budgets: Budgets;
  readonly attention: Attention;
  /** The backups of the store, if they are made. */
  readonly backups: () => BackupState | undefined;
  readonly parameters: Parameters;
  readonly store: Store;
  readonly gate: Gate;
  readonly plugins: () => readonly PluginReport[];
  readonly feed: JobFeed;
  /** The link to the control system, if a plugin provides one. */
  readonly control: () => ControlSystem | undefined;
  readonly sessions: Sessions;
  /** Where people sign in, with what encrypts what a browser keeps meanwhile; `undefined` where they do not. */
  readonly provider: { readonly identity: PersonProvider; readonly seal: Seal } | undefined;
  /** Seals the codes that bring a sign-in to a program. */
  readonly programSeal: Seal;
  readonly links: OneTimeLinks;
  readonly views: SavedViews;
  /** Differs once a job or case has changed, of all or of those that a caller sees, or what is recorded or logged of these jobs. */
  readonly newest: (
    jobIds: readonly string[],
    seen?: { readonly jobs: Jobs; readonly cases: Cases },
  ) => Promise<string>;
  readonly wellness: Wellness;
  readonly console: ConsoleBuffer;
  readonly bulk: BulkOperations;
}

import type { IdentityProvider } from "../../core/access/identity-provider.ts";
import type { AgentSettings } from "../../core/agents/agent-settings.ts";
import type { Parameters } from "../../core/agents/parameters.ts";
import type { AgentRegistry } from "../../core/agents/registry.ts";
import type { AuditLog } from "../../core/audit/audit-log.ts";
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
import type { ServiceState } from "../../core/http/service-state.ts";
import type { Retention } from "../../core/retention/retention.ts";
import type { Attention } from "../../core/runs/attention/attention.ts";
import type { Budgets } from "../../core/runs/queue/budgets.ts";
import type { Runner } from "../../core/runs/runner.ts";
import type { ResolvedOptions } from "../../core/service/options.ts";
import type { PluginReport } from "../../core/service/set-up-plugins.ts";
import type { BackupState } from "../../core/store/backup/backups.ts";
import type { Store } from "../../core/store/store.ts";
import type { Activity } from "./activity.ts";
import type { AnswerLinks } from "./answer-links/answer-links.ts";
import type { Assets } from "./assets.ts";
import type { BulkOperations } from "./bulk/operations.ts";
import type { ConsoleBuffer } from "./console/buffer.ts";
import type { Extensions } from "./extension.ts";
import type { JobLog } from "./job-log/job-log.ts";
import type { LiveHub } from "./live/hub.ts";
import type { ResolvedAdminOptions } from "./options.ts";
import type { Wellness } from "./pages/well.ts";
import type { Renderer } from "./renderer.ts";
import type { SavedViews } from "./saved-views/saved-views.ts";
import type { Sessions } from "./sessions.ts";
import type { OneTimeLinks } from "./sign-in-links.ts";

/** What the pages and routes of the admin interface use. */
export interface AdminParts {
  readonly options: ResolvedAdminOptions;
  readonly service: ResolvedOptions;
  readonly state: ServiceState;
  readonly jobs: Jobs;
  readonly files: Files;
  readonly cases: Cases;
  readonly agents: AgentRegistry;
  readonly audit: AuditLog;
  readonly retention: Retention;
  readonly budgets: Budgets;
  readonly attention: Attention;
  /** The backups of the store, if they are made. */
  readonly backups: () => BackupState | undefined;
  readonly settings: AgentSettings;
  readonly parameters: Parameters;
  readonly store: Store;
  readonly clients: Clients;
  readonly gate: Gate;
  readonly log: Logger;
  readonly redactor: Redactor;
  readonly clock: () => Date;
  readonly plugins: () => readonly PluginReport[];
  readonly runner: () => Runner;
  readonly threads: Threads;
  readonly feed: JobFeed;
  /** The link to the control system, if a plugin provides one. */
  readonly control: () => ControlSystem | undefined;
  readonly assets: Assets;
  readonly renderer: Renderer;
  readonly sessions: Sessions;
  /** Where people sign in, with what encrypts what a browser keeps meanwhile; `undefined` where they do not. */
  readonly provider: { readonly identity: IdentityProvider; readonly seal: Seal } | undefined;
  readonly links: OneTimeLinks;
  readonly answerLinks: AnswerLinks;
  readonly views: SavedViews;
  readonly extensions: Extensions;
  readonly hub: LiveHub;
  readonly activity: Activity;
  readonly wellness: Wellness;
  readonly console: ConsoleBuffer;
  readonly jobLog: JobLog;
  readonly bulk: BulkOperations;
}

/** The state of event deliveries, for the dashboard. */
export interface ControlSystemView {
  readonly status: string;
  readonly label: string | undefined;
  readonly facts: readonly { readonly name: string; readonly value: string; readonly tone?: string }[];
  readonly alert: string | undefined;
}

// So that a plugin's file can merge `Tables` into "agent-control-service/store" without an import of it.
/// <reference path="./store.ts" preserve="true" />

// Plugins

export { createToken, type Token } from "./core/base/container.ts";
export type { Change, Participant, Touched } from "./core/entities/change.ts";
export type {
  ChangeOf,
  CoreHooks,
  HookListener,
  HookName,
  Observer,
  PluginHookName,
  ServiceHooks,
} from "./core/entities/hooks.ts";
export type {
  GivenOptions,
  NoOptions,
  Plugin,
  PluginContext,
  PluginDefinition,
  PluginFactory,
  PluginHooks,
  PluginInput,
} from "./core/service/plugin.ts";
export { definePlugin, PluginError } from "./core/service/plugin.ts";

// Commands of plugins

export type {
  AnyFlagsSchema,
  FlagsSchema,
  PluginCommand,
  PluginCommandInput,
  ServiceConnection,
} from "./core/service/plugin-command.ts";
export { defineCommand } from "./core/service/plugin-command.ts";

// Parts of a service

export type { AccessKeys } from "./core/access/access-keys.ts";
export type { AgentSettings, PausedAgents, SettingPatch } from "./core/agents/agent-settings.ts";
export type { EnvelopeVersion, SealOptions } from "./core/agents/envelope.ts";
export type { OpenParameters, Parameters, ParametersCheck } from "./core/agents/parameters.ts";
export type { AgentOfJob, AgentRegistry, HostedAgent } from "./core/agents/registry.ts";
export type { AuditEvent, AuditLog, AuditPage, AuditQuery } from "./core/audit/audit-log.ts";
export type { Actor, Caller, CallerKind } from "./core/audit/caller.ts";
export type { RejectedKeys } from "./core/audit/rejected-keys.ts";
export type { LogRecord } from "./core/base/log.ts";
export type { RedactedParts, Redactor } from "./core/base/redactor.ts";
export type { Cases } from "./core/entities/cases.ts";
export type { Jobs } from "./core/entities/jobs.ts";
export type { GivenKey } from "./core/entities/keyed-requests.ts";
export type { RunEntryInput, Unit } from "./core/entities/ledger.ts";
export type { TurnOf } from "./core/http/chat/follow-turn.ts";
export type { SentTurn, ThreadMessage, ThreadStart, Threads } from "./core/http/chat/threads.ts";
export type { Clients } from "./core/http/clients.ts";
export type { JobFeed, WatchOptions } from "./core/http/job-feed.ts";
export type { LiveStreams, StreamReader, StreamSource } from "./core/http/live-streams.ts";
export type { ServerEvent } from "./core/http/server-event.ts";
export type { ServiceState } from "./core/http/service-state.ts";
export type { Access, NewAccess } from "./core/models/access.ts";
export type { ExportLine } from "./core/models/job-export.ts";
export type { AnsweredQuestion, KeyedRequest } from "./core/models/keyed-request.ts";
export type { CaseUpdateRequest } from "./core/models/question.ts";
export type { Schedule } from "./core/models/schedule.ts";
export type { ServerInfo } from "./core/models/server-info.ts";
export type { BudgetUse } from "./core/models/spending.ts";
export type { Telemetry } from "./core/models/telemetry.ts";
export type { DueCount } from "./core/retention/due-jobs.ts";
export type { Retention } from "./core/retention/retention.ts";
export type { EmittedChunks, EmittingStep } from "./core/runs/emissions/emissions.ts";
export type { NamedCall } from "./core/runs/fork/call-names.ts";
export type { Budgets } from "./core/runs/queue/budgets.ts";
export type {
  AnswerRequest,
  Deletion,
  DeletionOptions,
  Drained,
  ForkRequest,
  MethodCall,
  QueuePosition,
  Runner,
  Schedules,
  SentEvent,
  SentMessage,
  StartRequest,
} from "./core/runs/runner.ts";
export type { ServiceKeys } from "./core/service/keys.ts";
export type { PluginReport } from "./core/service/set-up-plugins.ts";
export * from "./core/service/tokens.ts";
export type { BackupState } from "./core/store/backup/backups.ts";

// Routes

export type { AcceptedToken, Gate, SessionVerifier, SignedIn } from "./core/http/gate.ts";
export type { TokenRule } from "./core/http/job-tokens.ts";
export type {
  AddedRoute,
  Connection,
  HttpEvent,
  RouteAuth,
  RouteDefinition,
  RouteInput,
  RouteResponse,
  Router,
  RouteSchema,
  RouteValue,
} from "./core/http/route.ts";
export { defineRoute } from "./core/http/route.ts";

// Events

export type {
  ControlCounts,
  ControlStatus,
  ControlSystem,
  MessageState,
  OutboxMessage,
  TargetHealth,
} from "./core/delivery/control-system.ts";
export type {
  Delivery,
  DeliveryTarget,
  Events,
  HeaderSource,
  NamedReceivers,
  NewEvent,
  PostedMessage,
} from "./core/delivery/events.ts";
export { DeliveryError } from "./core/delivery/events.ts";
export type { ControlEvent } from "./core/models/event.ts";

// Admin interface

export type { AdminCard, AdminExtensions, AdminPage, AdminPageRequest } from "./plugins/admin/extension.ts";
export { ADMIN } from "./plugins/admin/extension.ts";
export { type Html, type HtmlValue, html } from "./plugins/admin/views/html.ts";

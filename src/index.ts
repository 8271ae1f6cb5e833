// Server

export type { AgentDefinition, InterruptionPolicy, MethodDefinition } from "./core/agents/define-agent.ts";
// Agents
export { defineAgent } from "./core/agents/define-agent.ts";
export type * from "./core/agents/run-context.ts";
export type { Runner, StartRequest } from "./core/agents/runner.ts";
export { OptionsError } from "./core/check-options.ts";
export { createToken, type Token } from "./core/container.ts";
// Events
export type {
  ControlCounts,
  ControlStatus,
  ControlSystem,
  OutboxMessage,
  TargetHealth,
} from "./core/control-system.ts";
// Deploy platforms
export { type Command, createCommand, type Word } from "./core/deploy/command.ts";
export type { PlatformDefinition, SessionDefinition } from "./core/deploy/define-platform.ts";
export { definePlatform } from "./core/deploy/define-platform.ts";
export { DeployError } from "./core/deploy/errors.ts";
export type * from "./core/deploy/platform.ts";
export { createReleases, type ReleasePlace, type ReleaseRecord } from "./core/deploy/releases.ts";
export { type FieldChange, specChanges } from "./core/deploy/spec-changes.ts";
export type * from "./core/deploy/tools.ts";
export { createVault, type ValueStore } from "./core/deploy/vault.ts";
// Errors
export { ServiceError } from "./core/errors.ts";
export type { Delivery, DeliveryTarget, Events, NewEvent } from "./core/events.ts";
export { DeliveryError } from "./core/events.ts";
export type { ServiceHooks } from "./core/hooks.ts";
export type { Gate, SessionVerifier } from "./core/http/gate.ts";
export type { RouteAuth, RouteDefinition, RouteInput, RouteResponse, Router } from "./core/http/route.ts";
export { defineRoute } from "./core/http/route.ts";
// Entities
export type { Case, StoredCase } from "./core/models/case.ts";
export type { CaseNodeUpdate } from "./core/models/case-node-update.ts";
export type { EntityStatus } from "./core/models/entity-status.ts";
export type { ErrorResponse, ErrorType } from "./core/models/error-response.ts";
export type { Job } from "./core/models/job.ts";
export type { JobContext } from "./core/models/job-context.ts";
export type { JobInstructions } from "./core/models/job-instructions.ts";
export type { JobResponse } from "./core/models/job-response.ts";
export type { RunEntry } from "./core/models/run-entry.ts";
export type { ResolvedOptions, ServerOptions } from "./core/options.ts";

// Plugins
export type { Plugin, PluginContext, PluginInput } from "./core/plugin.ts";
export { PluginError } from "./core/plugin.ts";
export type { Service } from "./core/service.ts";
// Store
export type * from "./core/store/store.ts";
export type { StoreDriverOptions } from "./core/store/unstorage-driver.ts";
export { storeDriver } from "./core/store/unstorage-driver.ts";
export * from "./core/tokens.ts";
// Admin interface
export type { AdminCard, AdminExtensions, AdminPage, AdminPageRequest } from "./plugins/admin/extension.ts";
export { ADMIN } from "./plugins/admin/extension.ts";
export { admin } from "./plugins/admin/index.ts";
export type { AdminOptions } from "./plugins/admin/options.ts";
export { type Html, html } from "./plugins/admin/views/html.ts";
export { docs } from "./plugins/docs/index.ts";
export type { EventsOptions } from "./plugins/events/options.ts";
export { events } from "./plugins/events/plugin.ts";
export type { TelemetryOptions } from "./plugins/telemetry/options.ts";
export { telemetry } from "./plugins/telemetry/plugin.ts";
export type { WebhookOptions, WebhooksOptions } from "./plugins/webhooks/plugin.ts";
export { webhooks } from "./plugins/webhooks/plugin.ts";
export { createServer } from "./server.ts";

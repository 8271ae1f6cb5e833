// Server

export type {
  AgentDefinition,
  InterruptionPolicy,
  MethodDefinition,
  ParameterValues,
} from "./core/agents/define-agent.ts";
// Agents
export { defineAgent } from "./core/agents/define-agent.ts";
export type { FieldsInput, FieldValues, GivenFields } from "./core/agents/fields-input.ts";
export type * from "./core/agents/run-context.ts";
export { OptionsError } from "./core/base/check-options.ts";
export { createToken, type Token } from "./core/base/container.ts";
export { type Duration, isDuration } from "./core/base/duration.ts";
// Errors
export { ServiceError } from "./core/base/errors.ts";
// Events
export type {
  ControlCounts,
  ControlStatus,
  ControlSystem,
  OutboxMessage,
  TargetHealth,
} from "./core/delivery/control-system.ts";
export type { Delivery, DeliveryTarget, Events, NewEvent } from "./core/delivery/events.ts";
export { DeliveryError } from "./core/delivery/events.ts";
export type { ServiceHooks } from "./core/entities/hooks.ts";
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
export type { Runner, StartRequest } from "./core/runs/runner.ts";
export type { ResolvedOptions, ServerOptions } from "./core/service/options.ts";
// Plugins
export type { Plugin, PluginContext, PluginInput } from "./core/service/plugin.ts";
export { PluginError } from "./core/service/plugin.ts";
export type { Service } from "./core/service/service.ts";
export * from "./core/service/tokens.ts";
// Store
export type * from "./core/store/store.ts";
export type { StoreDriverOptions } from "./core/store/unstorage-driver.ts";
export { storeDriver } from "./core/store/unstorage-driver.ts";
// Deploy platforms
export { type Command, createCommand, type Word } from "./deploy/command.ts";
export type { PlatformDefinition, SessionDefinition } from "./deploy/define-platform.ts";
export { definePlatform } from "./deploy/define-platform.ts";
export { DeployError } from "./deploy/errors.ts";
export type * from "./deploy/platform.ts";
export { createReleases, type ReleasePlace, type ReleaseRecord } from "./deploy/releases.ts";
export { type FieldChange, specChanges } from "./deploy/spec-changes.ts";
export type * from "./deploy/tools.ts";
export { createVault, type ValueStore } from "./deploy/vault.ts";
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

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

export type { Actor, Caller, CallerKind } from "./core/audit/caller.ts";
export type { LogRecord } from "./core/base/log.ts";
export type { GivenKey } from "./core/entities/keyed-requests.ts";
export type { StreamReader, StreamSource } from "./core/http/live-streams.ts";
export type { KeyedRequest } from "./core/models/keyed-request.ts";
export type { CaseUpdateRequest } from "./core/models/question.ts";
export type { ServerInfo } from "./core/models/server-info.ts";
export type { ShownQuestion } from "./core/models/shown-question.ts";
export type { BudgetUse } from "./core/models/spending.ts";
export type { Telemetry } from "./core/models/telemetry.ts";
export type { EmittedChunks, EmittingStep } from "./core/runs/emissions/emissions.ts";
export type { AnswerRequest, DeletionOptions, SentEvent, StartRequest } from "./core/runs/runner.ts";
export * from "./core/service/plugin-parts.ts";

// Routes

export type { ErrorForm } from "./core/http/error-form.ts";
export type { SessionVerifier, SignedIn } from "./core/http/gate.ts";
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

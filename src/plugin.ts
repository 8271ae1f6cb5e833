// So that a plugin's file can merge `Tables` into "agent-control-service/store" without an import of it.
/// <reference path="./store.ts" preserve="true" />

// Plugins

export { createToken, type Token } from "./core/base/container.ts";
export type { Change, Participant } from "./core/entities/change.ts";
export type { CoreHooks, HookName, PluginHookName, ServiceHooks } from "./core/entities/hooks.ts";
export type {
  NoOptions,
  Plugin,
  PluginContext,
  PluginDefinition,
  PluginFactory,
  PluginHooks,
  PluginInput,
} from "./core/service/plugin.ts";
export { definePlugin } from "./core/service/plugin.ts";

// Commands of plugins

export type {
  AnyFlagsSchema,
  PluginCommand,
  PluginCommandInput,
  ServiceConnection,
} from "./core/service/plugin-command.ts";
export { defineCommand } from "./core/service/plugin-command.ts";

// Parts of a service

export type { Caller, CallerKind } from "./core/audit/caller.ts";
export type { BudgetUse } from "./core/models/spending.ts";
export type { AnswerRequest, StartRequest } from "./core/runs/runner.ts";
export * from "./core/service/plugin-parts.ts";

// Routes

export type { ErrorForm } from "./core/http/error-form.ts";
export type { SessionVerifier, SignedIn } from "./core/http/gate.ts";
export type {
  AddedRoute,
  Connection,
  HttpEvent,
  RouteDefinition,
  RouteInput,
  Router,
  RouteSchema,
  RouteValue,
} from "./core/http/route.ts";
export { defineRoute } from "./core/http/route.ts";

// Events

export type { Delivery, DeliveryTarget, Events, NewEvent } from "./core/delivery/events.ts";
export { DeliveryError } from "./core/delivery/events.ts";
export type { ControlEvent } from "./core/models/event.ts";

// Admin interface

export type { AdminExtensions, AdminPage, AdminPageRequest } from "./plugins/admin/extension.ts";
export { ADMIN } from "./plugins/admin/extension.ts";
export { type Html, html } from "./plugins/admin/views/html.ts";

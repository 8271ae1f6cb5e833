// Plugins

export { createToken, type Token } from "./core/base/container.ts";
export type { Change, Participant } from "./core/entities/change.ts";
export type {
  CoreHooks,
  HookListener,
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
  FlagsSchema,
  PluginCommand,
  PluginCommandInput,
  ServiceConnection,
} from "./core/service/plugin-command.ts";
export { defineCommand } from "./core/service/plugin-command.ts";

// Parts of a service

export type { Runner, StartRequest } from "./core/runs/runner.ts";
export * from "./core/service/tokens.ts";

// Routes

export type { Gate, SessionVerifier } from "./core/http/gate.ts";
export type {
  HttpEvent,
  RouteAuth,
  RouteDefinition,
  RouteInput,
  RouteResponse,
  Router,
} from "./core/http/route.ts";
export { defineRoute } from "./core/http/route.ts";

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

// Admin interface

export type { AdminCard, AdminExtensions, AdminPage, AdminPageRequest } from "./plugins/admin/extension.ts";
export { ADMIN } from "./plugins/admin/extension.ts";
export { type Html, html } from "./plugins/admin/views/html.ts";

import type { StandardSchemaV1 } from "@standard-schema/spec";
import { OptionsError } from "../base/check-options.ts";
import type { Token } from "../base/container.ts";
import type { Logger } from "../base/log.ts";
import type { MaybePromise } from "../base/maybe-promise.ts";
import { shownName } from "../base/not-known.ts";
import { type NamesOf, unknownOption } from "../base/refuse-unknown.ts";
import { suggest } from "../base/suggest.ts";
import type { Change, Participant } from "../entities/change.ts";
import {
  type CoreHooks,
  type HookListener,
  isCoreHook,
  type PluginHookName,
  type ServiceHooks,
} from "../entities/hooks.ts";
import type { PlatformLoader } from "../models/platform-loader.ts";
import type { TableSpec } from "../store/store.ts";
import type { PluginCommand } from "./plugin-command.ts";

/** Extends a service, the deploy command, or both. `definePlugin` makes one that has options. */
export interface Plugin {
  /** Unique; a later plugin of the same name replaces an earlier one. */
  readonly name: string;
  /** The versions of agent-control-service that it works with: a semver range, such as `^1.2.0`. @default all */
  readonly engines?: string;
  /** Plugins that must be set up before this one, and whose parts and tables it may use. */
  readonly dependsOn?: readonly string[];
  /** Hooks of its own, which nobody else can emit. */
  readonly hooks?: readonly PluginHookName[];
  /** Tables of its own in the store. */
  readonly tables?: readonly TableSpec<never>[];
  /** What its options must be, and what they are; made by `definePlugin`. */
  readonly options?: GivenOptions;
  /** Joins a running service; has a time limit. */
  setup?(context: PluginContext): MaybePromise<void>;
  /** Commands of the command line, in projects that have this plugin; a function makes them from the options. */
  readonly commands?: readonly PluginCommand[] | ((options: never) => readonly PluginCommand[]);
  /** Deploy targets by name, imported only when they are used. */
  readonly platforms?: Readonly<Record<string, PlatformLoader>>;
}

const NAMES: NamesOf<Plugin> = {
  ...{ name: true, engines: true, dependsOn: true, hooks: true, tables: true, options: true, setup: true },
  ...{ commands: true, platforms: true },
};

/** Options as they were given, checked when the service starts. */
export interface GivenOptions {
  readonly schema: StandardSchemaV1;
  readonly given: unknown;
}

/** What a plugin gets to join a service. */
export interface PluginContext<Options = unknown, Own extends PluginHookName = PluginHookName> {
  /** The options, checked, with their defaults; `undefined` where the plugin declares none. */
  readonly options: Options;
  readonly hooks: PluginHooks<Own>;
  readonly log: Logger;
  /**
   * Resolves when the service listens: not before all plugins are set up, so `setup` must not wait for it. Stays
   * pending where the service closes before that.
   */
  readonly ready: Promise<CoreHooks["service:ready"]>;
  /** A part of the service, or one provided by a plugin named in `dependsOn`. */
  get<T>(token: Token<T>): T;
  /** Adds a part that this plugin and those that depend on it can get, and the handlers of agents. */
  provide<T>(token: Token<T>, make: () => T, options?: { readonly byDefault?: boolean }): void;
  /**
   * Takes part in every change of a job or case, before it is stored: what `participant` writes with `tx` is
   * stored together with the change or not at all, and when it throws, the change does not happen. A
   * `ServiceError` reaches the caller of the change, with its status. It may run more than once for a change,
   * and may await only `tx`: the store waits for it. It can write the tables of this plugin and of those it
   * depends on, and can read all. It is called for changes of these kinds only, which costs all others nothing.
   * @default kinds all
   */
  participate(participant: Participant, kinds?: readonly Change["kind"][]): void;
  /** Runs when the service closes, in reverse order. */
  onClose(fn: () => MaybePromise<void>): void;
}

/** The hooks as a plugin has them. */
export interface PluginHooks<Own extends PluginHookName = PluginHookName> extends HookListener {
  /** Notifies all observers of one of the plugin's own hooks; does not wait for their asynchronous work. */
  emit<K extends Own>(name: K, payload: ServiceHooks[K]): void;
}

/** Plugins as people write them: nested lists, and falsy values for those switched off. */
export type PluginInput = Plugin | false | null | undefined | readonly PluginInput[];

/** A mistake in the list of plugins, in a plugin's options, or in what a plugin does. */
export class PluginError extends OptionsError {
  override readonly name = "PluginError";
}

/** What `definePlugin` takes. */
export interface PluginDefinition<Schema extends StandardSchemaV1, Own extends PluginHookName>
  extends Omit<Plugin, "options" | "hooks" | "setup" | "commands"> {
  /** What the plugin is called with: an object schema of valibot, zod, ArkType or another library with Standard Schema. */
  readonly options?: Schema;
  readonly hooks?: readonly Own[];
  readonly commands?:
    | readonly PluginCommand[]
    | ((options: StandardSchemaV1.InferOutput<Schema>) => readonly PluginCommand[]);
  setup?(context: PluginContext<StandardSchemaV1.InferOutput<Schema>, Own>): MaybePromise<void>;
}

/** Makes a plugin from its options. */
export type PluginFactory<Schema extends StandardSchemaV1> =
  Record<never, never> extends NonNullable<StandardSchemaV1.InferInput<Schema>>
    ? (options?: StandardSchemaV1.InferInput<Schema>) => Plugin
    : (options: StandardSchemaV1.InferInput<Schema>) => Plugin;

/** The schema of a plugin that has no options. */
export type NoOptions = StandardSchemaV1<Record<never, never>, undefined>;

/**
 * Defines a plugin by what it is called, needs and does; the result is called with the plugin's options.
 *
 * @example
 * export const greetings = definePlugin({
 *   name: "greetings",
 *   engines: "^1.0.0",
 *   options: v.strictObject({ greeting: v.optional(v.string(), "Hello") }),
 *   setup({ options, log }) {
 *     log.info(options.greeting);
 *   },
 * });
 *
 * createServer({ agents, plugins: [greetings({ greeting: "Good morning" })] });
 */
export function definePlugin<
  Schema extends StandardSchemaV1 = NoOptions,
  const Own extends PluginHookName = never,
>(definition: PluginDefinition<Schema, Own>): PluginFactory<Schema> {
  const unknown = unknownOption(definition, NAMES);
  if (unknown !== undefined) throw new PluginError(`definePlugin: plugin "${definition.name}": ${unknown}`);
  const { options: schema, ...rest } = definition;
  const make = (given: unknown = {}): Plugin => {
    if (!schema) refuseOptions(definition.name, given);
    return { ...rest, ...(schema && { options: { schema, given } }) } as Plugin;
  };
  // What the error names where somebody forgets to call it.
  const name = definition.name.replace(/[^A-Za-z0-9]+(.)?/g, (_, next: string = "") => next.toUpperCase());
  return Object.defineProperty(make, "name", { value: name }) as PluginFactory<Schema>;
}

function refuseOptions(plugin: string, given: unknown): void {
  const [name] = typeof given === "object" && given !== null ? Object.keys(given) : [String(given)];
  if (name !== undefined)
    throw new PluginError(`Plugin "${plugin}" has no options: ${shownName(name)} is not accepted`);
}

/** Flattens a list, and lets a later plugin replace an earlier one of its name. They may depend on plugins that it lacks. */
export function listPlugins(input: PluginInput): Plugin[] {
  return [...byNameOf(input).values()];
}

function byNameOf(input: PluginInput): Map<string, Plugin> {
  const byName = new Map<string, Plugin>();
  for (const plugin of flatten(input)) {
    refuseMistakes(plugin);
    byName.set(plugin.name, plugin);
  }
  return byName;
}

/** What `listPlugins` gives, sorted by `dependsOn`. */
export function orderPlugins(input: PluginInput): Plugin[] {
  const byName = byNameOf(input);
  const ordered = new Set<Plugin>();
  const visit = (plugin: Plugin, path: readonly string[]): void => {
    if (ordered.has(plugin)) return;
    const here = [...path, plugin.name];
    if (path.includes(plugin.name))
      throw new PluginError(`Plugins have a circular dependency: ${here.join(" → ")}`);
    for (const name of plugin.dependsOn ?? []) {
      const dependency = byName.get(name);
      if (!dependency) {
        throw new PluginError(
          `Plugin "${plugin.name}" depends on "${name}", which is not in the list of plugins (${[...here, name].join(" → ")})`,
        );
      }
      visit(dependency, here);
    }
    ordered.add(plugin);
  };
  for (const plugin of byName.values()) visit(plugin, []);
  refuseSharedHooks(ordered);
  return [...ordered];
}

function refuseMistakes(plugin: Plugin): void {
  if (typeof plugin === "function") {
    const { name } = plugin as { name: string };
    throw new PluginError(`Plugin "${name}" is a function: call it, ${name || "plugin"}()`);
  }
  if (plugin instanceof Promise) throw new PluginError("A plugin is a promise: await it");
  if (typeof plugin.name !== "string" || plugin.name === "") {
    throw new PluginError("A plugin has no name: give it a unique, non-empty name");
  }
  refuseMisspelled(plugin);
}

/** A plugin that is not made by `definePlugin` may have members of its own; those that look like a known one are mistakes. */
function refuseMisspelled(plugin: Plugin): void {
  for (const [name, value] of Object.entries(plugin)) {
    if (Object.hasOwn(NAMES, name) || value === undefined) continue;
    const meant = suggest(name, Object.keys(NAMES));
    if (meant !== undefined)
      throw new PluginError(
        `Plugin "${plugin.name}": ${shownName(name)} is not known: did you mean ${meant}?`,
      );
  }
}

function flatten(input: PluginInput): Plugin[] {
  if (!input) return [];
  return Array.isArray(input) ? (input as readonly PluginInput[]).flatMap(flatten) : [input as Plugin];
}

function refuseSharedHooks(plugins: Iterable<Plugin>): void {
  const owners = new Map<string, string>();
  for (const { name, hooks } of plugins) {
    for (const hook of hooks ?? []) {
      const owner = isCoreHook(hook) ? "the service" : owners.get(hook);
      if (owner !== undefined) {
        throw new PluginError(
          `Plugin "${name}" declares the hook "${hook}", which belongs to ${owner}: choose another name, such as "${name}:${hook}"`,
        );
      }
      owners.set(hook, `plugin "${name}"`);
    }
  }
}

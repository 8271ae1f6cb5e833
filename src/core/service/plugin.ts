import type { PlatformLoader } from "../../deploy/platform.ts";
import { type Container, type Token, tokenName } from "../base/container.ts";
import type { Logger } from "../base/log.ts";
import type { Hooks } from "../entities/hooks.ts";
import type { TableSpec } from "../store/store.ts";

type MaybePromise<T> = T | Promise<T>;

/** Extends a service, the deploy command, or both. */
export interface Plugin {
  /** Unique; a later plugin of the same name replaces an earlier one. */
  readonly name: string;
  /** Plugins that must be set up before this one, and whose parts it may use. */
  readonly dependsOn?: readonly string[];
  /** Tables of its own in the store. */
  readonly tables?: readonly TableSpec<never>[];
  /** Joins a running service; has a time limit. */
  setup?(context: PluginContext): MaybePromise<void>;
  /** Deploy targets by name, imported only when they are used. */
  readonly platforms?: Readonly<Record<string, PlatformLoader>>;
}

/** What a plugin gets to join a service. */
export interface PluginContext {
  readonly hooks: Hooks;
  readonly log: Logger;
  /** A part of the service, or one provided by a plugin named in `dependsOn`. */
  get<T>(token: Token<T>): T;
  /** Adds a part that this plugin and those that depend on it can get. */
  provide<T>(token: Token<T>, make: () => T): void;
  /** Runs when the service closes, in reverse order. */
  onClose(fn: () => MaybePromise<void>): void;
}

/** Plugins as people write them: nested lists, and falsy values for those switched off. */
export type PluginInput = Plugin | false | null | undefined | readonly PluginInput[];

/** A mistake in the list of plugins. */
export class PluginError extends Error {
  override readonly name = "PluginError";
}

/** Flattens a list, lets a later plugin replace an earlier one of its name, and sorts by `dependsOn`. */
export function orderPlugins(input: PluginInput): Plugin[] {
  const byName = new Map<string, Plugin>();
  for (const plugin of flatten(input)) {
    refuseMistakes(plugin);
    byName.set(plugin.name, plugin);
  }
  const ordered = new Set<Plugin>();
  const visit = (plugin: Plugin, path: readonly string[]): void => {
    if (ordered.has(plugin)) return;
    const here = [...path, plugin.name];
    if (path.includes(plugin.name))
      throw new PluginError(`Plugins depend on each other in a circle: ${here.join(" → ")}`);
    for (const name of plugin.dependsOn ?? []) {
      const dependency = byName.get(name);
      if (!dependency) {
        throw new PluginError(
          `Plugin "${plugin.name}" depends on "${name}", which is not there (${[...here, name].join(" → ")})`,
        );
      }
      visit(dependency, here);
    }
    ordered.add(plugin);
  };
  for (const plugin of byName.values()) visit(plugin, []);
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
}

function flatten(input: PluginInput): Plugin[] {
  if (!input) return [];
  return Array.isArray(input) ? (input as readonly PluginInput[]).flatMap(flatten) : [input as Plugin];
}

export interface PluginReport {
  readonly name: string;
  readonly dependsOn: readonly string[];
  /** Milliseconds that the setup took. */
  readonly setupTime: number;
}

export interface PluginHost {
  readonly scope: Container;
  readonly hooks: Hooks;
  readonly log: Logger;
  /** Seconds. */
  readonly timeout: number;
}

/** Sets plugins up in order; an error or a time-out names the plugin. Resolves with how long each took. */
export async function setUpPlugins(plugins: readonly Plugin[], host: PluginHost): Promise<PluginReport[]> {
  const owners = new Map<symbol, string>();
  const byName = new Map(plugins.map((plugin) => [plugin.name, plugin]));
  const reports: PluginReport[] = [];
  for (const plugin of plugins) {
    const begun = performance.now();
    if (plugin.setup) await setUp(plugin, createContext(plugin, byName, owners, host), host.timeout);
    reports.push({
      name: plugin.name,
      dependsOn: plugin.dependsOn ?? [],
      setupTime: performance.now() - begun,
    });
  }
  return reports;
}

async function setUp(plugin: Plugin, context: PluginContext, timeout: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(
        new PluginError(`Plugin "${plugin.name}" was not set up within ${timeout} s (option pluginTimeout)`),
      );
    }, timeout * 1000);
  });
  try {
    await Promise.race([plugin.setup?.(context), late]);
  } catch (error) {
    if (error instanceof PluginError) throw error;
    const message = error instanceof Error ? error.message : String(error);
    throw new PluginError(`Plugin "${plugin.name}" could not be set up: ${message}`, { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

function createContext(
  plugin: Plugin,
  byName: ReadonlyMap<string, Plugin>,
  owners: Map<symbol, string>,
  host: PluginHost,
): PluginContext {
  const reachable = reach(plugin, byName);
  return {
    hooks: host.hooks,
    log: host.log.with({ plugin: plugin.name }),
    get: (token) => {
      const owner = owners.get(token);
      if (owner !== undefined && !reachable.has(owner)) {
        throw new PluginError(
          `Plugin "${plugin.name}" asks for "${tokenName(token)}" of plugin "${owner}": add "${owner}" to its dependsOn`,
        );
      }
      return host.scope.get(token);
    },
    provide: (token, make) => {
      if (host.scope.has(token)) {
        throw new PluginError(
          `Plugin "${plugin.name}" provides "${tokenName(token)}", which is there already`,
        );
      }
      owners.set(token, plugin.name);
      host.scope.factory(token, make);
    },
    onClose: (fn) => host.scope.onClose(fn),
  };
}

/** The plugin itself and all that it depends on. */
function reach(plugin: Plugin, byName: ReadonlyMap<string, Plugin>, seen = new Set<string>()): Set<string> {
  if (seen.has(plugin.name)) return seen;
  seen.add(plugin.name);
  for (const name of plugin.dependsOn ?? []) {
    const dependency = byName.get(name);
    if (dependency) reach(dependency, byName, seen);
  }
  return seen;
}

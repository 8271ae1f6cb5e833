import { type Container, tokenName } from "../base/container.ts";
import { messageOf } from "../base/error-text.ts";
import type { Logger } from "../base/log.ts";
import { type CoreHooks, type Hooks, isCoreHook } from "../entities/hooks.ts";
import type { Ledger } from "../entities/ledger.ts";
import { guardParticipant } from "./participant.ts";
import { type Plugin, type PluginContext, PluginError, type PluginHooks } from "./plugin.ts";

export interface PluginReport {
  readonly name: string;
  readonly dependsOn: readonly string[];
  /** Milliseconds that the setup took. */
  readonly setupTime: number;
}

/** What plugins join. */
export interface PluginHost {
  readonly scope: Container;
  readonly hooks: Hooks;
  readonly ledger: Ledger;
  readonly log: Logger;
  /** Resolves when the service listens. */
  readonly ready: Promise<CoreHooks["service:ready"]>;
  /** Checked options by the name of the plugin. */
  readonly options: ReadonlyMap<string, unknown>;
  /** Seconds. */
  readonly timeout: number;
}

/** What is known of all plugins while they are set up. */
interface Boot extends PluginHost {
  readonly byName: ReadonlyMap<string, Plugin>;
  /** Names of the plugins that provide parts. */
  readonly owners: Map<symbol, string>;
  /** Parts that another plugin may provide instead. */
  readonly defaults: Set<symbol>;
}

/** Sets plugins up in order; an error or a time-out names the plugin. Resolves with how long each took. */
export async function setUpPlugins(plugins: readonly Plugin[], host: PluginHost): Promise<PluginReport[]> {
  const byName = new Map(plugins.map((plugin) => [plugin.name, plugin]));
  const boot: Boot = { ...host, byName, owners: new Map(), defaults: new Set() };
  const reports: PluginReport[] = [];
  for (const plugin of plugins) {
    const begun = performance.now();
    if (plugin.setup) await setUp(plugin, boot);
    reports.push({
      name: plugin.name,
      dependsOn: plugin.dependsOn ?? [],
      setupTime: performance.now() - begun,
    });
  }
  return reports;
}

async function setUp(plugin: Plugin, boot: Boot): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  let asksForReady = false;
  const context = createContext(plugin, boot, () => {
    asksForReady = true;
  });
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const hint = asksForReady ? ". It must not wait for `ready`: that comes after setup" : "";
      reject(
        new PluginError(
          `Plugin "${plugin.name}" was not set up within ${boot.timeout} s (option pluginTimeout)${hint}`,
        ),
      );
    }, boot.timeout * 1000);
  });
  try {
    await Promise.race([plugin.setup?.(context), late]);
  } catch (error) {
    if (error instanceof PluginError) throw error;
    throw new PluginError(`Plugin "${plugin.name}" could not be set up: ${messageOf(error)}`, {
      cause: error,
    });
  } finally {
    clearTimeout(timer);
  }
}

function createContext(plugin: Plugin, boot: Boot, onReady: () => void): PluginContext {
  const { scope, owners, defaults, byName } = boot;
  const reachable = reach(plugin, byName);
  return {
    options: boot.options.get(plugin.name),
    hooks: hooksOf(plugin, boot),
    log: boot.log.with({ plugin: plugin.name }),
    get ready() {
      onReady();
      return boot.ready;
    },
    get: (token) => {
      const owner = owners.get(token);
      if (owner !== undefined && !reachable.has(owner)) {
        throw new PluginError(
          `Plugin "${plugin.name}" asks for "${tokenName(token)}" of plugin "${owner}": add "${owner}" to its dependsOn`,
        );
      }
      return scope.get(token);
    },
    provide: (token, make, { byDefault = false } = {}) => {
      if (scope.has(token) && byDefault && owners.has(token)) return;
      if (scope.has(token) && !defaults.has(token)) {
        throw new PluginError(`Plugin "${plugin.name}" provides "${tokenName(token)}", which already exists`);
      }
      if (byDefault) defaults.add(token);
      else defaults.delete(token);
      owners.set(token, plugin.name);
      scope.factory(token, make);
    },
    participate: (participant, kinds) => {
      const tables = [...reachable].flatMap((name) => byName.get(name)?.tables ?? []);
      const names = new Set(tables.map((table) => table.name));
      scope.onClose(boot.ledger.join(guardParticipant(plugin.name, names, participant), kinds));
    },
    onClose: (fn) => scope.onClose(fn),
  };
}

/** Hooks on which a plugin can emit no others than its own. */
function hooksOf(plugin: Plugin, { hooks, byName }: Boot): PluginHooks {
  const own = new Set<string>(plugin.hooks);
  return {
    on: (name, observer) => hooks.on(name, observer),
    emit: (name, payload) => {
      if (!own.has(name)) throw foreignHook(plugin, name, byName);
      hooks.emit(name, payload);
    },
  };
}

function foreignHook(plugin: Plugin, hook: string, byName: ReadonlyMap<string, Plugin>): PluginError {
  const owner = [...byName.values()].find(({ hooks }) => (hooks as readonly string[])?.includes(hook));
  const reason = isCoreHook(hook)
    ? "only the service does"
    : owner
      ? `only plugin "${owner.name}" does`
      : "add it to the plugin's hooks";
  return new PluginError(`Plugin "${plugin.name}" cannot emit "${hook}": ${reason}`);
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

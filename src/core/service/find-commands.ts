import { checkPlugins } from "./check-plugins.ts";
import { listPlugins, PluginError, type PluginInput } from "./plugin.ts";
import type { PluginCommand } from "./plugin-command.ts";

/** A command and the plugin that it comes from. */
export interface FoundCommand {
  readonly plugin: string;
  readonly name: string;
  readonly command: PluginCommand;
}

/** The commands of plugins. Throws a `PluginError` where a plugin cannot be used, or two have the same command. */
export async function findCommands(plugins: PluginInput): Promise<FoundCommand[]> {
  const withCommands = listPlugins(plugins).filter(({ commands }) => commands !== undefined);
  const options = await checkPlugins(withCommands);
  const found = withCommands.flatMap(({ name: plugin, commands }) => {
    const list = typeof commands === "function" ? commands(options.get(plugin) as never) : (commands ?? []);
    return list.map((command) => ({ plugin, name: nameOf(plugin, command), command }));
  });
  for (const [at, { name, plugin }] of found.entries()) {
    const before = found.slice(0, at).find((one) => one.name === name);
    if (before) {
      throw new PluginError(
        `Plugins "${before.plugin}" and "${plugin}" both have a command "${name}": one of them must change`,
      );
    }
  }
  return found;
}

function nameOf(plugin: string, { usage }: PluginCommand): string {
  const name = /^([a-z][a-z0-9-]*)( |$)/.exec(usage)?.[1];
  if (name !== undefined) return name;
  throw new PluginError(
    `Plugin "${plugin}" has a command with the usage "${usage}": it must begin with a name of lower-case letters, digits and -`,
  );
}

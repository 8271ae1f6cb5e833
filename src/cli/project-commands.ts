import * as v from "valibot";
import { messageOf } from "../core/base/error-text.ts";
import { type FoundCommand, findCommands } from "../core/service/find-commands.ts";
import type { Command } from "./command.ts";
import type { CliContext } from "./context.ts";
import { UsageError } from "./errors.ts";
import { CONNECTION_FLAGS, connect } from "./job/connection.ts";
import { findController, loadController } from "./load-controller.ts";
import { pluginFlags } from "./plugin-flags.ts";
import type { ProjectCommands } from "./program.ts";
import { renderTable } from "./table.ts";

/** Milliseconds that a controller gets to load. */
const PATIENCE = 10_000;

/**
 * The commands that the plugins of this folder's project add. Its controller is loaded, and its service is
 * not started. A project that cannot be loaded has none: the problem is reported.
 */
export async function findProjectCommands(
  context: CliContext,
  reserved: readonly string[],
): Promise<ProjectCommands> {
  const file = controllerIn(context.cwd);
  if (file === undefined) return { commands: [], problems: [] };
  try {
    const service = await withinPatience(loadController(file, context));
    const found = await findCommands(service.options.plugins);
    const hidden = found.filter(({ name }) => reserved.includes(name));
    return {
      commands: found
        .filter((one) => !hidden.includes(one))
        .map((one) => toCommand(one, service.options.dataDir, context)),
      problems: hidden.map(
        ({ plugin, name }) =>
          `Plugin "${plugin}" has a command "${name}", which is a built-in command of svc: the plugin's cannot be used`,
      ),
    };
  } catch (error) {
    const problem = `The commands of this project's plugins are unknown: ${messageOf(error)}`;
    const { detail } = error as { detail?: string };
    return { commands: [], problems: [detail ? `${problem}. ${detail}` : problem] };
  }
}

function controllerIn(cwd: string): string | undefined {
  try {
    return findController(undefined, cwd);
  } catch {
    return undefined;
  }
}

async function withinPatience<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const error = new Error(`the controller has not loaded within ${PATIENCE / 1000} s`);
    timer = setTimeout(() => reject(error), PATIENCE);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

function toCommand(found: FoundCommand, dataDir: string, context: CliContext): Command {
  const { plugin, command } = found;
  const { url, key, insecure } = CONNECTION_FLAGS;
  const connection: v.ObjectEntries = command.connects ? { url, key, insecure } : {};
  const own = pluginFlags(found);
  return {
    usage: command.usage,
    summary: `${command.summary} (plugin ${plugin})`,
    flags: v.object<v.ObjectEntries>({ ...connection, ...own.entries }),
    ...(command.examples && { examples: command.examples }),
    async run({ args, flags: read }) {
      const { cwd, env, interactive, print, note } = context;
      const flags = own.checked(read);
      const code = await command.run({
        ...{ args, flags, cwd, env, interactive, dataDir, print, note },
        table: (header, rows) => print(renderTable(header, rows, context.paint?.print)),
        connect: async () => {
          if (command.connects) return connect(read, context);
          throw new UsageError(
            `The command ${command.usage} of plugin "${plugin}" cannot connect`,
            "Its author has to set connects: true.",
          );
        },
      });
      return typeof code === "number" ? code : 0;
    },
  };
}

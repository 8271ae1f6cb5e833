import * as v from "valibot";
import { option } from "../../core/base/option.ts";
import { suggest } from "../../core/base/suggest.ts";
import { listPlugins } from "../../core/service/plugin.ts";
import type { Platform, PlatformFlags, PlatformLoader } from "../../deploy/platform.ts";
import type { CliContext } from "../context.ts";
import { UsageError } from "../errors.ts";
import { describeFlags } from "../flags.ts";
import { findController, loadController } from "../load-controller.ts";

/** The value of an option in the arguments of a command line. */
export function wordOf(argv: readonly string[], flag: string): string | undefined {
  for (const [index, word] of argv.entries()) {
    if (word === "--") return undefined;
    if (word === `--${flag}`) return argv[index + 1];
    if (word.startsWith(`--${flag}=`)) return word.slice(flag.length + 3);
  }
  return undefined;
}

/** Whether an option was given, in any of its spellings. */
export function isGiven(argv: readonly string[], flag: string): boolean {
  const end = argv.indexOf("--");
  const words = end < 0 ? argv : argv.slice(0, end);
  return words.some(
    (word) => word === `--${flag}` || word === `--no-${flag}` || word.startsWith(`--${flag}=`),
  );
}

/** Loads a platform by name: a built-in one, else one from the project's plugins. */
export async function loadPlatform(name: string, context: CliContext): Promise<Platform<never>> {
  const own = context.platforms[name];
  if (own) return (await own()).default;
  const others = await projectPlatforms(context).catch((error: unknown) => {
    // A typo must be reported even if the project cannot be loaded.
    if (suggest(name, Object.keys(context.platforms)) !== undefined) return {};
    throw error;
  });
  const loader = (others as Readonly<Record<string, PlatformLoader>>)[name];
  if (loader) return (await loader()).default;
  const names = [...Object.keys(context.platforms), ...Object.keys(others)];
  const meant = suggest(name, names);
  throw new UsageError(
    `Unknown platform "${name}"`,
    meant ? `Did you mean ${meant}?` : `Platforms: ${names.join(", ") || "none"}.`,
  );
}

/** The options of all built-in platforms, each naming those that have it: for the help. */
export async function allFlags(context: CliContext): Promise<PlatformFlags["entries"]> {
  const entries: Record<string, PlatformFlags["entries"][string]> = {};
  /** The names of the platforms by what the option means there. */
  const owners: Record<string, Map<string, string[]>> = {};
  // A platform with two names counts once.
  const loaded = await Promise.all(
    Object.values(context.platforms).map(async (load) => (await load()).default),
  );
  for (const { name, flags } of new Set(loaded)) {
    for (const [key, entry] of Object.entries(flags.entries)) {
      entries[key] ??= entry;
    }
    for (const { key, description } of describeFlags(flags)) {
      const same = owners[key] ?? new Map<string, string[]>();
      owners[key] = same;
      same.set(description, [...(same.get(description) ?? []), name]);
    }
  }
  // Platforms may mean different things by a name, or begin with different values.
  const told = Object.entries(owners).map(([key, texts]) => {
    const help = [...texts].map(([text, names]) => `${names.join(", ")}: ${text}`).join("; ");
    return [key, v.pipe(entries[key] as v.GenericSchema, v.description(help))] as const;
  });
  return Object.fromEntries(told) as PlatformFlags["entries"];
}

/** The names to choose from; a platform's other names are accepted, too. */
export function offeredNames({ platforms }: Pick<CliContext, "platforms">): string[] {
  const loaders = Object.values(platforms);
  return Object.keys(platforms).filter((name, at) => loaders.indexOf(platforms[name]!) === at);
}

/** The option `--platform`; its help names the built-in platforms. */
export function platformFlag(context: CliContext): PlatformFlags["entries"] {
  const names = offeredNames(context).join(", ");
  const description = `where to deploy: ${names}, or a platform from a plugin of your controller`;
  return {
    platform: option.text(description, "name"),
  };
}

async function projectPlatforms(context: CliContext): Promise<Readonly<Record<string, PlatformLoader>>> {
  const file = wordOf(context.argv, "controller-file");
  const folder = wordOf(context.argv, "source-dir") ?? "src";
  let path: string;
  try {
    path = findController(file === undefined ? undefined : `${folder}/${file}`, context.cwd);
  } catch {
    // Without a controller there are no plugins to look in.
    return {};
  }
  const service = await loadController(path, context);
  const plugins = listPlugins(service.options.plugins);
  return Object.assign({}, ...plugins.map((plugin) => plugin.platforms ?? {}));
}

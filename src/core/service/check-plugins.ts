import { refusals } from "../agents/refusals.ts";
import { unknownIn } from "../agents/unknown-in-schema.ts";
import { describeProblem, listProblems } from "../base/describe-issue.ts";
import { VERSION } from "../http/service-state.ts";
import { type GivenOptions, type Plugin, PluginError } from "./plugin.ts";

/**
 * Checks what plugins need and are called with, before anything is opened; resolves with the options by plugin, with
 * their defaults. Throws a `PluginError` that names the first plugin that cannot be used, and all that is wrong with it.
 */
export async function checkPlugins(
  plugins: readonly Plugin[],
  version = VERSION,
): Promise<Map<string, unknown>> {
  const options = new Map<string, unknown>();
  for (const plugin of plugins) {
    if (plugin.engines !== undefined) await checkEngines(plugin.name, plugin.engines, version);
    if (plugin.options) options.set(plugin.name, await checkOptions(plugin.name, plugin.options));
  }
  return options;
}

/** With prereleases of the versions that a range names: a plugin can be tried with a release to come. */
async function checkEngines(plugin: string, range: string, version: string): Promise<void> {
  const { default: semver } = await import("semver");
  if (semver.validRange(range) === null) {
    throw new PluginError(
      `Plugin "${plugin}" has engines "${range}", which is not a semver range such as "^1.2.0"`,
    );
  }
  if (semver.satisfies(version, range, { includePrerelease: true })) return;
  throw new PluginError(
    `Plugin "${plugin}" needs agent-control-service ${range}, and this is ${version}: install a compatible version of the plugin or of agent-control-service`,
  );
}

async function checkOptions(plugin: string, { schema, given }: GivenOptions): Promise<unknown> {
  const unknown = unknownIn(schema, given);
  const result = await schema["~standard"].validate(given);
  if (!result.issues && unknown.length === 0) return result.value;
  const problems = refusals(schema["~standard"], given, result.issues, unknown).map(({ path, problem }) =>
    describeProblem(path && `option ${path}`, problem),
  );
  throw new PluginError(
    `Plugin "${plugin}" cannot use its options: ${listProblems(problems)}. Change its options, ${plugin}({ … }), in createServer({ plugins })`,
  );
}

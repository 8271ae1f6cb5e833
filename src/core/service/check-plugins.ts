import type { StandardSchemaV1 } from "@standard-schema/spec";
import { isAboutUnknown, unknownIn } from "../agents/unknown-in-schema.ts";
import { describeProblem, listProblems } from "../base/describe-issue.ts";
import { describeStandardIssue } from "../base/describe-standard-issue.ts";
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
  const { validate, vendor } = schema["~standard"];
  const unknown = await unknownIn(schema, given);
  const result = await validate(given);
  if (!result.issues && unknown.length === 0) return result.value;
  const problems = [
    ...unknown.map(({ path, problem }) => describeProblem(path && `option ${path}`, problem)),
    ...(result.issues ?? [])
      .filter((issue) => unknown.length === 0 || !isAboutUnknown(issue, vendor))
      .map((issue) => describe(issue, vendor, given)),
  ];
  throw new PluginError(
    `Plugin "${plugin}" cannot use its options: ${listProblems(problems)}. Change its options, ${plugin}({ … }), in createServer({ plugins })`,
  );
}

/** One problem; the value, which may be secret, is not repeated. */
function describe(issue: StandardSchemaV1.Issue, vendor: string, given: unknown): string {
  const path = Array.from(issue.path ?? [], (one) => (typeof one === "object" ? one.key : one));
  const value = path.reduce<unknown>(
    (at, key) => (at as Record<PropertyKey, unknown> | undefined | null)?.[key],
    given,
  );
  const name = path.length === 0 ? "" : `option ${path.map(String).join(".")}`;
  return describeProblem(name, describeStandardIssue(issue, { vendor, value }));
}

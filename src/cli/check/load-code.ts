import { syncBuiltinESMExports } from "node:module";
import { AgentRegistry } from "../../core/agents/registry.ts";
import { fingerprintOfProject } from "../../core/service/project-code.ts";
import { OPTIONS } from "../../core/service/tokens.ts";
import type { CliContext } from "../context.ts";
import type { CliError } from "../errors.ts";
import { loadController } from "../load-controller.ts";
import { withSecretFiles } from "../secret-files.ts";

/** What `svc check --code` found where the code could be loaded, or lacks secrets for that. */
export interface CodeReport {
  /** Slugs of its agents; null where it could not be loaded without secrets that are not set here. */
  readonly agents: readonly string[] | null;
  /** Secrets that it read before it failed, and that are not set here. */
  readonly needs: readonly string[];
  /** Why it could not be loaded. */
  readonly error: string | null;
}

/** The agents of a controller, and its data folder. Rejects where an agent has a mistake, or the file cannot be loaded. */
export async function loadCode(
  file: string,
  context: Pick<CliContext, "cwd">,
): Promise<{ readonly registry: AgentRegistry; readonly dataDir: string }> {
  const { agents, build, dataDir } = (await loadController(file, context)).get(OPTIONS);
  const registry = new AgentRegistry(agents, build ?? (() => fingerprintOfProject(context.cwd)));
  return { registry, dataDir };
}

/** Loads a controller; a failure counts only if none of these secrets, which may be missing here, can be its cause. */
export async function checkCode(
  file: string,
  context: Pick<CliContext, "cwd" | "env">,
  secrets: readonly string[],
): Promise<CodeReport> {
  // The compiler of TypeScript reads all variables when it is loaded: before they are watched.
  const { createJiti } = await import("jiti");
  createJiti(import.meta.url, { fsCache: false }).transform({ source: "", ts: true });
  const given = withSecretFiles(context.env);
  const needs = watchEnvironment(secrets.filter((name) => !given[name]));
  try {
    const { registry } = await loadCode(file, context);
    return { agents: registry.list().map(({ slug }) => slug), needs: [], error: null };
  } catch (error) {
    if (needs.size === 0) throw error;
    const { message, detail } = error as Partial<CliError>;
    return { agents: null, needs: [...needs], error: detail ?? message ?? String(error) };
  }
}

/** Which of these variables are read from now on, by name or with all others. */
function watchEnvironment(names: readonly string[]): ReadonlySet<string> {
  const read = new Set<string>();
  const note = (key: string | symbol) => {
    if (names.includes(key as string)) read.add(key as string);
  };
  process.env = new Proxy(process.env, {
    get(env, key) {
      note(key);
      return Reflect.get(env, key) as unknown;
    },
    // Without this, a variable that is set would be redefined, which process.env refuses.
    set: (env, key, value) => Reflect.set(env, key, value),
    has(env, key) {
      note(key);
      return Reflect.has(env, key);
    },
    getOwnPropertyDescriptor(env, key) {
      note(key);
      return Reflect.getOwnPropertyDescriptor(env, key);
    },
    ownKeys(env) {
      for (const name of names) read.add(name);
      return Reflect.ownKeys(env);
    },
  });
  // For those who import `env` from node:process.
  syncBuiltinESMExports();
  return read;
}

/** A report for people. */
export function describeCode({ agents, needs, error }: CodeReport): string[] {
  if (agents === null)
    return [`The code was not checked: it reads ${needs.join(", ")}, not set here`, `  ${error}`];
  return [`The code can be loaded: ${agents.length} agent${agents.length === 1 ? "" : "s"}`];
}

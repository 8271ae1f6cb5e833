import type { DeployConfig } from "./config.ts";
import { OURS, STORE } from "./config.ts";
import type { Deployment } from "./deployment.ts";
import { checkInstances } from "./instances.ts";
import type { Release } from "./platform.ts";

/** What a deployment is to give to the service, once it is known what runs. */
export interface EffectiveConfig extends DeployConfig {
  /** Secrets of the service that runs, kept because no file says otherwise. */
  readonly keptSecrets: readonly string[];
}

/**
 * The configuration. Where no file says what the service is given (a fresh checkout, a pipeline: the file is not committed),
 * that is unknown and not nothing: variables, secrets and store stay as they run.
 */
export function effectiveConfig(config: DeployConfig, live: Release | undefined): EffectiveConfig {
  if (config.known || live === undefined) return { ...config, keptSecrets: [] };
  const environment = Object.entries(live.env ?? {}).filter(([name]) => !OURS.includes(name));
  return {
    ...config,
    environment: Object.fromEntries(environment),
    store: live.env?.[STORE] === "external" ? "external" : "file",
    keptSecrets: live.secretNames ?? [],
  };
}

/** Tells what is kept although no file names it, and what is taken away because the file does not. */
export function tellKept(
  { emit }: Deployment,
  plan: {
    readonly config: EffectiveConfig;
    readonly env: Readonly<Record<string, string>>;
    readonly live: Release | undefined;
  },
): void {
  const { config, env, live } = plan;
  const list = (names: readonly string[]) => [...names].sort().join(", ");
  const theirs = Object.keys(live?.env ?? {}).filter((name) => !name.startsWith("SERVICE_"));
  const kept = config.known ? [] : [...theirs, ...config.keptSecrets];
  if (kept.length > 0)
    emit({
      type: "notice",
      level: "info",
      message: `No .deployment/config.yaml says what the service is given: it keeps ${list(kept)}`,
    });
  const lost = theirs.filter((name) => env[name] === undefined);
  if (lost.length > 0)
    emit({
      type: "notice",
      level: "warning",
      message: `.deployment/config.yaml does not name ${list(lost)}: the service is not given it any more`,
    });
}

/** Where only the service that runs tells its store, its instances stay as they are, or are held to what that store allows. */
export function settleInstances(
  { target, given }: Pick<Deployment, "target" | "given">,
  config: EffectiveConfig,
  live: Release | undefined,
): void {
  if (config.known) return;
  if (config.store !== "external") checkInstances(given);
  if (live !== undefined && given.maxInstances === undefined)
    delete (target.flags as Record<string, unknown>).maxInstances;
}

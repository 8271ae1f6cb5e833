import type { DeployConfig } from "./config.ts";
import { OURS, STORE } from "./config.ts";
import type { Deployment } from "./deployment.ts";
import { checkInstances } from "./instances.ts";
import type { Release } from "./platform.ts";

/** The variables and secrets that a deployment passes to the service, once the running service is known. */
export interface EffectiveConfig extends DeployConfig {
  /** Secrets of the running service, kept because no file says otherwise. */
  readonly keptSecrets: readonly string[];
}

/**
 * The configuration. Without a file (a fresh checkout or a pipeline: the file is not committed), the wanted
 * values are unknown rather than empty: variables, secrets and store stay as they are in the running service.
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

/** Reports what is kept although no file lists it, and what is removed because the file does not list it. */
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
      message: `There is no .deployment/config.yaml with the service's variables: it keeps ${list(kept)}`,
    });
  const lost = theirs.filter((name) => env[name] === undefined);
  if (lost.length > 0)
    emit({
      type: "notice",
      level: "warning",
      message: `.deployment/config.yaml does not list ${list(lost)}: the service will no longer receive it`,
    });
}

/**
 * If the store is known only from the running service, its instances stay unchanged, or are limited to what
 * that store allows.
 */
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

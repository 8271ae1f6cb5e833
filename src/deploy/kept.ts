import type { DeployConfig } from "./config.ts";
import { OURS } from "./config.ts";
import type { Deployment } from "./deployment.ts";
import { type JobStore, storeOf, wantedStore } from "./job-store.ts";
import type { Release } from "./platform.ts";

/** The variables and secrets that a deployment passes to the service, once the running service is known. */
export interface EffectiveConfig extends Omit<DeployConfig, "store"> {
  readonly store: JobStore;
  /** Secrets of the running service, kept because no file says otherwise. */
  readonly keptSecrets: readonly string[];
}

/**
 * The configuration. Without a file (a fresh checkout or a pipeline: the file is not committed), the wanted
 * values are unknown rather than empty: variables, secrets and store stay as they are in the running service.
 */
export function effectiveConfig(
  { config, tools }: Pick<Deployment, "config" | "tools">,
  live: Release | undefined,
  stored: readonly { readonly name: string }[],
): EffectiveConfig {
  const vault = stored.map(({ name }) => name);
  if (config.known || live === undefined)
    return { ...config, store: wantedStore(config, tools.env, vault), keptSecrets: [] };
  const keptSecrets = live.secretNames ?? [];
  const before = storeOf(live) === "external" ? ("external" as const) : undefined;
  const store = wantedStore({ ...config, store: before }, tools.env, [...vault, ...keptSecrets]);
  const environment = Object.entries(live.env ?? {}).filter(([name]) => !OURS.includes(name));
  return {
    ...config,
    environment: Object.fromEntries(environment),
    store,
    keptSecrets,
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

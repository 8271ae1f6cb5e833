import { DATABASE_URL, type DeployConfig, OLD_CONFIG, OURS } from "./config.ts";
import type { Deployment } from "./deployment.ts";
import { inform, warn } from "./events.ts";
import { DEPLOY_FILE } from "./file/deploy-file.ts";
import { type JobPlace, storeOf, wantedStore } from "./job-store.ts";
import type { Release } from "./platform.ts";
import { resolveStorage, storageOf } from "./storage.ts";

/** The variables and secrets that a deployment passes to the service, once the running service is known. */
export interface EffectiveConfig extends Omit<DeployConfig, "store">, JobPlace {
  /** Secrets of the running service, kept because no file says otherwise. */
  readonly keptSecrets: readonly string[];
}

/**
 * The configuration. What `deploy.yaml` does not list stays as it is in the running service: variables, secrets
 * and store. A `config.yaml`, where there is no `deploy.yaml`, is complete.
 */
export async function effectiveConfig(
  deployment: Pick<Deployment, "config" | "tools" | "options" | "platform" | "session">,
  live: Release | undefined,
  stored: readonly { readonly name: string }[],
): Promise<EffectiveConfig> {
  const { config, tools, options } = deployment;
  const vault = stored.map(({ name }) => name);
  const typed = options.storage && (await resolveStorage(options.storage, deployment));
  const hasUrl = Boolean(tools.env[DATABASE_URL]) || config.secrets.some(({ name }) => name === DATABASE_URL);
  const storage = typed ?? (config.store !== undefined || hasUrl ? undefined : storageOf(live));
  if (config.known || live === undefined)
    return { ...config, store: wantedStore(config, tools.env, vault, storage), storage, keptSecrets: [] };
  const { removed = [], secrets } = config;
  const noDatabase = config.store === "file" || storage !== undefined;
  const gone = [...removed, ...(noDatabase ? [DATABASE_URL] : [])];
  const keptSecrets = (live.secretNames ?? []).filter(
    (name) => !gone.includes(name) && config.environment[name] === undefined,
  );
  const before = storage === undefined && storeOf(live) === "external" ? ("external" as const) : undefined;
  const names = [...vault, ...keptSecrets].filter((name) => !gone.includes(name));
  const store = wantedStore({ ...config, store: config.store ?? before }, tools.env, names, storage);
  const isOther = (name: string) =>
    OURS.includes(name) ||
    removed.includes(name) ||
    secrets.some((secret) => secret.name === name) ||
    // A service without a bucket refuses to start with it.
    (name === "SERVICE_DURABILITY" && store !== "bucket");
  const environment = Object.entries(live.env ?? {}).filter(([name]) => !isOther(name));
  return {
    ...config,
    environment: { ...Object.fromEntries(environment), ...config.environment },
    store,
    storage,
    keptSecrets,
  };
}

/** Reports what is kept although no file lists it, and what is removed because the file does not list it. */
export function tellKept(
  deployment: Pick<Deployment, "config" | "emit">,
  plan: {
    readonly config: EffectiveConfig;
    readonly env: Readonly<Record<string, string>>;
    readonly live: Release | undefined;
  },
): void {
  const { emit } = deployment;
  const { config, env, live } = plan;
  const list = (names: readonly string[]) => [...names].sort().join(", ");
  const theirs = Object.keys(live?.env ?? {}).filter(
    (name) => !name.startsWith("SERVICE_") && !OURS.includes(name),
  );
  const listed = [...Object.keys(deployment.config.environment), ...config.secrets.map(({ name }) => name)];
  const kept = [...theirs, ...config.keptSecrets].filter(
    (name) => (env[name] !== undefined || config.keptSecrets.includes(name)) && !listed.includes(name),
  );
  const file = config.file ?? DEPLOY_FILE;
  if (kept.length > 0)
    inform(
      emit,
      `${config.file === undefined ? `There is no ${file}` : `${file} does not list all`} of the service's variables: it keeps ${list(kept)}`,
    );
  const lost = [...theirs, ...(live?.secretNames ?? [])].filter((name) =>
    theirs.includes(name) ? env[name] === undefined : config.removed?.includes(name),
  );
  if (lost.length > 0)
    warn(
      emit,
      `${file} ${config.known ? "does not list" : "removes"} ${list(lost)}: the service will no longer receive it`,
    );
  if (config.known)
    inform(
      emit,
      `${OLD_CONFIG} is not committed, so colleagues and pipelines do not have it: svc deploy init moves it to ${DEPLOY_FILE}`,
    );
}

import { DATABASE_URL, type DeployConfig, OLD_CONFIG, OURS } from "./config.ts";
import type { Deployment } from "./deployment.ts";
import { DeployError } from "./errors.ts";
import { inform, warn } from "./events.ts";
import { DEPLOY_FILE } from "./file/deploy-file.ts";
import { type JobPlace, storeOf, wantedStore } from "./job-store.ts";
import type { Release } from "./platform.ts";
import { isOwnKey } from "./secrets.ts";
import { resolveStorage, storageOf } from "./storage.ts";

/** The variables and secrets that a deployment passes to the service, once the running service is known. */
export interface EffectiveConfig extends Omit<DeployConfig, "store">, JobPlace {
  /** Secrets of the running service, kept because no file says otherwise. */
  readonly keptSecrets: readonly string[];
  /** Makes the URL of a database that the platform runs beside the service. */
  readonly makeDatabaseUrl?: () => string;
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
  const make = await ownDatabase(deployment, { hasUrl, hasBucket: typed !== undefined });
  const own = make ? { makeDatabaseUrl: make } : {};
  if (make) vault.push(DATABASE_URL);
  const storage = typed ?? (config.store !== undefined || hasUrl || make ? undefined : storageOf(live));
  if (config.known || live === undefined)
    return {
      ...{ ...config, ...own, storage, keptSecrets: [] },
      store: wantedStore(config, tools.env, vault, storage),
    };
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
    ...{ ...config, ...own },
    environment: { ...Object.fromEntries(environment), ...config.environment },
    store,
    storage,
    keptSecrets,
  };
}

/** How the URL of a database beside the service is made, if there is one; rejects where it is not clear where the jobs are. */
async function ownDatabase(
  { session, config }: Pick<Deployment, "session" | "config">,
  { hasUrl, hasBucket }: { readonly hasUrl: boolean; readonly hasBucket: boolean },
): Promise<(() => string) | undefined> {
  const own = await session.ownDatabase?.();
  const store = config.store && `"store: ${config.store}"`;
  const other = hasUrl ? DATABASE_URL : hasBucket ? '"storage"' : store;
  if (own === "ends" && other === undefined)
    throw new DeployError("bad_config", "The database beside the service ends, and it has the jobs", {
      fix: `Say where they will be: "store: file" in ${DEPLOY_FILE}, --storage, or ${DATABASE_URL}. svc deploy backup copies them`,
    });
  if (own === undefined || own === "ends") return undefined;
  if (other === undefined) return own;
  throw new DeployError(
    "bad_config",
    `A service has one store: a database runs beside it, and there is ${other}, too`,
    { fix: `Remove ${other}, or the database: --postgres none` },
  );
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
    (name) =>
      (env[name] !== undefined || config.keptSecrets.includes(name)) &&
      !listed.includes(name) &&
      // Keys of the service are its own, and so is the URL of its own database: no file lists them.
      !isOwnKey(name) &&
      !(name === DATABASE_URL && config.makeDatabaseUrl !== undefined),
  );
  const file = config.file ?? DEPLOY_FILE;
  if (kept.length > 0)
    inform(
      emit,
      `${config.file === undefined ? `There is no ${file}` : `${file} does not list all of the service's variables`}: it keeps ${list(kept)}`,
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

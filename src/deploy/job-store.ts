import { isNumberedKey, rsaKeyNames } from "../core/base/numbered-keys.ts";
import { toFlagName } from "../core/base/option.ts";
import { DATABASE_URL, type DeployConfig, SERVICE_SECRETS, STORAGE_URL, STORE } from "./config.ts";
import { DeployError } from "./errors.ts";
import type { DeployOptions } from "./options.ts";
import type { DeployTarget, Finding, Platform, Release } from "./platform.ts";
import type { Project } from "./project.ts";
import type { SecretPlan } from "./secrets.ts";

/**
 * Where a service stores its jobs and cases: in files of its container, in a bucket, in a Postgres database that all of its
 * instances share, or elsewhere, which only the user knows.
 */
export type JobStore = "file" | "bucket" | "database" | "external";

/** A store, with the URL of its bucket if it is one. */
export interface JobPlace {
  readonly store: JobStore;
  readonly storage?: string | undefined;
}

/** Whether a service that has its jobs there outlives its containers. */
export const isLasting = (store: JobStore): boolean => store === "bucket" || store === "database";

/** Where a running service stores them. */
export function storeOf(live: Pick<Release, "env" | "secretNames">): JobStore {
  if (live.secretNames?.includes(DATABASE_URL)) return "database";
  if (live.env?.[STORAGE_URL]) return "bucket";
  return live.env?.[STORE] === "external" ? "external" : "file";
}

/** Whether it needs its data folder: for its files, or for what it keeps of its bucket. One instance at a time uses it. */
export const usesFolder = (store: JobStore): boolean => store === "file" || store === "bucket";

/** Where a running service stores them, with its bucket. */
export function placeOf(live: Pick<Release, "env" | "secretNames">): JobPlace {
  const store = storeOf(live);
  return { store, storage: store === "bucket" ? live.env?.[STORAGE_URL] : undefined };
}

/** Where a service will store them: a bucket that an option names, a URL in the environment, the configuration or the platform's vault decides. */
export function wantedStore(
  { store, secrets, file }: Pick<DeployConfig, "store" | "secrets" | "file">,
  env: Readonly<Record<string, string | undefined>>,
  kept: readonly string[],
  storage?: string,
): JobStore {
  const isListed = secrets.some(({ name }) => name === DATABASE_URL);
  if (storage !== undefined) {
    const hasUrl = isListed || Boolean(env[DATABASE_URL]);
    const other = hasUrl ? DATABASE_URL : store && `"store: ${store}"`;
    if (other === undefined) return "bucket";
    throw new DeployError(
      "bad_config",
      `A service has one store: "storage" names a bucket, and there is ${other}, too`,
      {
        fix: hasUrl ? `Unset ${DATABASE_URL}, or remove "storage"` : 'Remove one of "storage" and "store"',
      },
    );
  }
  // With a store of one's own, the database may be for something else.
  if (store === "external" && !isListed) return store;
  const isGiven = Boolean(env[DATABASE_URL]) || isListed;
  if (store === "file" && isGiven)
    throw new DeployError(
      "bad_config",
      `${DATABASE_URL} is given, and the configuration says "store: file"`,
      {
        fix: `Remove "store: file" from ${file ?? "the configuration"} to store jobs in the database, or unset ${DATABASE_URL}`,
      },
    );
  if (isGiven || (store !== "file" && kept.includes(DATABASE_URL))) return "database";
  return store ?? "file";
}

type Flags = Record<string, unknown>;

interface Settling {
  readonly target: Pick<DeployTarget, "flags">;
  readonly given: Readonly<Record<string, unknown>>;
  readonly platform: Pick<Platform, "flags" | "withDatabase">;
}

/**
 * Completes the platform's options once the running service is known. Containers do not share files: a service that
 * stores its jobs there has at most one instance. One that moves to a database, or begins with one, gets the
 * platform's values for that. Otherwise what runs stays.
 */
export function settleInstances(
  { target, given, platform }: Settling,
  { store, known }: { readonly store: JobStore; readonly known: boolean },
  live: Release | undefined,
): void {
  const flags = target.flags as Flags;
  const hasLimit = platform.flags.entries.maxInstances !== undefined;
  const isKept = live !== undefined && given.maxInstances === undefined;
  if (usesFolder(store)) {
    if (!hasLimit) return;
    checkInstances(given);
    const isMoved = live !== undefined && storeOf(live) !== store;
    if (known || !isKept || isMoved) flags.maxInstances = given.maxInstances ?? 1;
    else delete flags.maxInstances;
    return;
  }
  const isNew = live === undefined || usesFolder(storeOf(live));
  if (store !== "database" || !isNew) {
    if (!known && isKept && hasLimit) delete flags.maxInstances;
    return;
  }
  for (const [key, value] of Object.entries(platform.withDatabase ?? {})) flags[key] = given[key] ?? value;
  const least = Number(given.minInstances ?? 0);
  if (given.maxInstances === undefined && Number(flags.maxInstances) < least) flags.maxInstances = least;
}

/** Rejects more than one instance of a service that stores its jobs in files or in a bucket. */
export function checkInstances(given: Readonly<Record<string, unknown>>): void {
  for (const key of ["minInstances", "maxInstances"]) {
    if (given[key] !== undefined && Number(given[key]) > 1)
      throw new DeployError(
        "usage",
        `--${toFlagName(key)} ${String(given[key])}: this service can have at most one instance`,
        {
          detail:
            "It stores jobs and cases in files or in a bucket, which one instance has: others would lose its jobs or take them over",
          fix: `Remove the option, or store them in Postgres: give the secret ${DATABASE_URL}; docs/deploy.md shows how`,
        },
      );
  }
}

interface Placed {
  readonly target: Pick<DeployTarget, "places">;
  readonly options: Pick<DeployOptions, "publicUrl">;
  readonly config: Pick<DeployConfig, "environment">;
}

/** What keeps a service from running in several places at the same time. */
export function placeFindings(
  { target: { places = 1 }, options, config }: Placed,
  store: JobStore,
): Finding[] {
  if (places === 1) return [];
  const found: Finding[] = [];
  if (usesFolder(store))
    found.push({
      level: "error",
      subject: "Store",
      message:
        store === "file"
          ? "several servers need one store, and each would have its jobs in files of its own"
          : "several servers need one store, and a bucket is used by one instance at a time",
      fix: `Store them in Postgres: give the secret ${DATABASE_URL} of a database that all of them reach`,
    });
  if (options.publicUrl === undefined && config.environment.SERVICE_PUBLIC_URL === undefined)
    found.push({
      level: "error",
      subject: "Address",
      message: "several servers have one address, that of the load balancer in front of them",
      fix: "Give it with --public-url, or as publicUrl in deploy.yaml",
    });
  return found;
}

/** The keys that a service cannot generate for itself where its jobs outlive its disk. */
export function keyFindings(secrets: SecretPlan, store: JobStore): Finding[] {
  const names = namesOf(secrets);
  const missing = SERVICE_SECRETS.filter(
    (name) => !names.includes(name) && !(rsaKeyNames([name]).length > 0 && names.some(isNumberedKey)),
  );
  if (missing.length === 0) return [];
  const why =
    store === "database" ? "all instances need the same keys" : "generated keys would be lost with the disk";
  return [
    {
      level: "error",
      subject: store === "database" ? "Database" : "Bucket",
      message: `${why}, and ${missing.join(" and ")} ${missing.length === 1 ? "is" : "are"} missing`,
      fix: "Add --generate-api-key --generate-rsa, or set them. A service that had files has its keys in its data folder",
    },
  ];
}

function namesOf(secrets: SecretPlan): string[] {
  return [...Object.keys(secrets.values), ...secrets.kept.map(({ name }) => name), ...secrets.unlisted];
}

/** What keeps a service with a database from starting, before anything is built. */
export function databaseFindings(secrets: SecretPlan, project: Project): Finding[] {
  const subject = "Database";
  const found = keyFindings(secrets, "database");
  if (!project.dependencies.includes("pg"))
    found.push({
      level: "error",
      subject,
      message: `the service needs the package "pg" for ${DATABASE_URL}, and package.json does not list it`,
      fix: `${project.packageManager} ${project.packageManager === "npm" ? "install" : "add"} pg`,
    });
  const url = secrets.values[DATABASE_URL]?.value;
  if (url === undefined || secrets.unknown.includes(DATABASE_URL)) return found;
  const host = hostOf(url);
  if (host === undefined)
    // Its text has a password.
    found.push({
      level: "error",
      subject,
      message: `${DATABASE_URL} must be postgres://user:password@host/database`,
    });
  else if (/^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(host))
    found.push({
      level: "warning",
      subject,
      message: `${DATABASE_URL} leads to ${host}: in a container that is the container itself`,
      fix: "Name the database's host, unless a proxy beside the service listens there",
    });
  return found;
}

function hostOf(url: string): string | undefined {
  if (!/^postgres(ql)?:\/\//.test(url)) return undefined;
  try {
    return new URL(url).hostname;
  } catch {
    return undefined;
  }
}

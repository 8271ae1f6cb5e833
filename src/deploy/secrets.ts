import { generateKeyPairSync, randomBytes } from "node:crypto";
import { isNumberedKey, rsaKeyNames } from "../core/base/numbered-keys.ts";
import { passwordIn } from "../core/base/redactor.ts";
import { DATABASE_URL, type DeployConfig, SERVICE_SECRETS } from "./config.ts";
import { DeployError } from "./errors.ts";
import type { Release, SecretRef, SecretValue, StoredSecret } from "./platform.ts";
import { unreleasedSecrets } from "./release-mark.ts";
import { type CommandSecret, valueFromCommand } from "./secret-command.ts";
import { hashSecret } from "./secret-hash.ts";
import type { DeployTools } from "./tools.ts";
import { withoutLineEnd } from "./without-line-end.ts";

/** What happens to the secrets of a deployment. */
export interface SecretPlan {
  /** Values known here, by variable. */
  readonly values: Readonly<Record<string, SecretValue>>;
  /** Names of `values` that are placeholders of one that the deployment will have: in a plan that is read elsewhere. */
  readonly unknown: readonly string[];
  /** Names of `values` that the platform lacks or that differ. */
  readonly changed: readonly string[];
  /** Stored by the platform with another value than the running release has, and not in `changed`. */
  readonly unreleased: readonly string[];
  /** Stored by the platform and unknown here: they stay unchanged. */
  readonly kept: readonly StoredSecret[];
  /** Passed to the running service from outside this target's part of the vault; they stay unchanged. */
  readonly unlisted: readonly string[];
  /** Stored by the platform and no longer configured: they are no longer passed to the service. */
  readonly unused: readonly StoredSecret[];
  /** Keys generated for this deployment. */
  readonly generated: readonly string[];
  /** Keys that the service has made for itself, and that are stored from now on: another one could not read its store. */
  readonly adopted: readonly string[];
  /** Secrets in the vault that others manage. */
  readonly referred: readonly SecretRef[];
}

export interface SecretOptions {
  /** The project's folder, where commands of secrets run. */
  readonly cwd: string;
  readonly config: Pick<DeployConfig, "secrets" | "file" | "removed">;
  /** Secrets of the running service that stay, although the configuration does not list them. */
  readonly keep: readonly string[];
  /** Whether the jobs are in a database: its URL is a secret then. */
  readonly hasDatabase: boolean;
  readonly tools: DeployTools;
  readonly target: string;
  readonly stored: readonly StoredSecret[];
  readonly live: Release | undefined;
  /** Where the configuration refers to secrets of the vault. */
  readonly referred: readonly SecretRef[];
  /** Hashes of the last deployment, for platforms that store none. */
  readonly lastHashes: Readonly<Record<string, string>>;
  /** A key that this run replaces, and the former ones, by variable. */
  readonly rotated: Readonly<Record<string, string>>;
  readonly generateApiKey: boolean;
  readonly generateRsa: boolean;
  /** Reads a key that the running service has made for itself, where its disk lasts. */
  readonly readOwnKey?: ((name: string) => Promise<string | undefined>) | undefined;
  /** Makes the URL of a database that the platform runs beside the service. */
  readonly makeDatabaseUrl?: (() => string) | undefined;
  /** Whether nothing will be deployed: a value that is unknown here is not missing. */
  readonly readOnly: boolean;
}

/**
 * Collects the secrets: from the config, from the environment, or newly generated if requested and missing.
 */
export async function planSecrets(options: SecretOptions): Promise<SecretPlan> {
  const { config, tools, target, lastHashes, keep, hasDatabase, readOnly, referred } = options;
  const isReferred = (name: string) => referred.some((secret) => secret.name === name);
  const stored = options.stored.filter(({ name }) => !isReferred(name));
  const texts = new Map<string, string>();
  const unknown: string[] = [];
  const rsaKeys = rsaKeyNames(stored.map(({ name }) => name));
  const [newest] = rsaKeys;
  const isRemoved = (name: string) => config.removed?.includes(name) === true;
  if (newest !== undefined && isNumberedKey(newest) && isRemoved(newest))
    throw new DeployError("bad_config", `${config.file ?? "The configuration"} removes ${newest}`, {
      detail: "It is the present RSA key: without it, the parameters of jobs could not be read",
      outcome: "Nothing was changed",
      fix: "Take that line out. svc deploy rotate-key makes another key; then this one can be removed",
    });
  const own = [...SERVICE_SECRETS, ...(hasDatabase ? [DATABASE_URL] : [])].filter(
    (name) => !isRemoved(name) || !rsaKeys.some(isNumberedKey) || !rsaKeys.includes(name),
  );
  // A run that was killed has stored a new key beside them.
  const former = stored.flatMap(({ name }) =>
    (KEPT_KEYS.includes(name) || isNumberedKey(name)) && !isRemoved(name) ? [name] : [],
  );
  const wanted = new Set<string>([...own, ...keep, ...former, ...Object.keys(options.rotated)]);
  for (const { name, value, source = name, command } of config.secrets) {
    wanted.add(name);
    if (isReferred(name)) continue;
    const found = await (command === undefined
      ? (value ?? (source === name ? withoutLineEnd(tools.env[name]) : undefined))
      : printed({ name, command }, options));
    if (found !== undefined) texts.set(name, found);
    else if (![...stored.map((secret) => secret.name), ...keep].includes(name)) {
      // The deployment has its value; a plan that is read elsewhere says only that it is new.
      if (readOnly) {
        texts.set(name, tools.newId());
        unknown.push(name);
        continue;
      }
      throw new DeployError("bad_config", `Secret ${name} has no value`, {
        detail: `${config.file ?? "The configuration"} lists it, and the platform does not store it yet`,
        fix: isFile(source)
          ? `Write it into ${source}`
          : `Set it for this command: ${source}=… svc deploy …; or name a file that has it: ${name}: { file: path }`,
      });
    }
  }
  for (const name of own) {
    const found = tools.env[name];
    if (found !== undefined && found !== "" && !texts.has(name) && !isReferred(name)) texts.set(name, found);
  }
  for (const name of ONE_LINE)
    if (/[\r\n]/.test(texts.get(name) ?? ""))
      throw new DeployError("bad_config", `Secret ${name} has several lines, and is one`, {
        detail: "What prints or holds its value adds another line, such as a notice",
        outcome: "Nothing was changed",
        fix: "Have it give the value alone",
      });
  for (const [name, value] of Object.entries(options.rotated)) texts.set(name, value);
  const adopted = await adoptOwnKeys(options, texts);
  const generated = [
    ...generateMissing(options, texts),
    ...Object.keys(options.rotated).filter((name) => !isFormer(name)),
  ];
  for (const text of texts.values()) tools.redact(text);
  const password = passwordIn(texts.get(DATABASE_URL) ?? "");
  if (password !== undefined) tools.redact(password);

  const hashed = [...texts].map(async ([name, value]) => {
    return [name, { value, hash: await hashSecret(value, { target, name }) }] as const;
  });
  const values: Record<string, SecretValue> = Object.fromEntries(await Promise.all(hashed));
  const changed = Object.keys(values).filter((name) => {
    const there = stored.find((secret) => secret.name === name);
    return there === undefined || (there.hash ?? lastHashes[name]) !== values[name]?.hash;
  });
  const keptOrWanted = (name: string) => wanted.has(name) || isReferred(name);
  return {
    values,
    unknown,
    // Former keys before the key that replaces them.
    changed: changed.sort((a, b) => Number(isFormer(b)) - Number(isFormer(a)) || (a < b ? -1 : 1)),
    unreleased: unreleasedSecrets(options.live, [...stored, ...referred]).filter(
      (name) => !changed.includes(name) && keptOrWanted(name),
    ),
    kept: stored.filter((secret) => wanted.has(secret.name) && values[secret.name] === undefined),
    unlisted: keep.filter(
      (name) =>
        values[name] === undefined && !isReferred(name) && !stored.some((secret) => secret.name === name),
    ),
    unused: stored.filter((secret) => !wanted.has(secret.name)),
    generated,
    adopted,
    referred,
  };
}

/** What the command of a secret prints; a plan is also read where nobody has signed in to what holds the values. */
function printed(
  secret: CommandSecret,
  { tools, cwd, readOnly }: SecretOptions,
): Promise<string | undefined> {
  const value = valueFromCommand(secret, tools, cwd);
  return readOnly ? value.catch(() => undefined) : value;
}

/** Secrets that no client could send, and no driver could read, with a line break. */
const ONE_LINE = ["SERVICE_API_KEY", "SERVICE_PREVIOUS_API_KEY", "SERVICE_ACCOUNT_API_KEY", DATABASE_URL];
/** Secrets with keys that were replaced, and are still valid. */
const FORMER_KEYS = ["SERVICE_PREVIOUS_API_KEY", "SERVICE_PREVIOUS_RSA_PRIVATE_KEY"];
/** Secrets that the service keeps once it has them: without these keys, what it has stored cannot be read. */
const KEPT_KEYS = [...FORMER_KEYS, "SERVICE_ENCRYPTION_KEYS"];
const KEYS_OF_JOBS = [
  "SERVICE_RSA_PRIVATE_KEY",
  "SERVICE_PREVIOUS_RSA_PRIVATE_KEY",
  "SERVICE_ENCRYPTION_KEYS",
];
const isFormer = (name: string) => FORMER_KEYS.includes(name);

/** Whether a secret is a key of the service, present or former. */
export function isOwnKey(name: string): boolean {
  return (SERVICE_SECRETS as readonly string[]).includes(name) || isFormer(name) || isNumberedKey(name);
}

/** Whether a secret is a key without which the jobs and files of a service could not be read, and which nobody else may have. */
export function isKeyOfJobs(name: string): boolean {
  return KEYS_OF_JOBS.includes(name) || isNumberedKey(name);
}

/** The environment, with the service's own secrets as they are meant. */
export function withSecretValues(
  env: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string | undefined>> {
  const own = [...SERVICE_SECRETS, DATABASE_URL].filter((name) => env[name] !== undefined);
  return { ...env, ...Object.fromEntries(own.map((name) => [name, withoutLineEnd(env[name])])) };
}

/** Whether a secret's source is a file: the name of a variable has neither dots nor slashes. */
export function isFile(source: string): boolean {
  return /[./\\]/.test(source);
}

/** A new service key: 32 random bytes. */
export function newApiKey(): string {
  return randomBytes(32).toString("base64url");
}

/** A new RSA key of 2048 bits, as PEM. */
export function newRsaKey(): string {
  return generateKeyPairSync("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  }).privateKey;
}

function isMissing({ stored, referred }: SecretOptions, texts: ReadonlyMap<string, string>, name: string) {
  return !texts.has(name) && ![...stored, ...referred].some((secret) => secret.name === name);
}

/** Instead of a new key, a service gets the one that it has made: its jobs and its clients have that. */
async function adoptOwnKeys(options: SecretOptions, texts: Map<string, string>): Promise<string[]> {
  const { generateApiKey, generateRsa, readOwnKey } = options;
  const asked = { SERVICE_API_KEY: generateApiKey, SERVICE_RSA_PRIVATE_KEY: generateRsa };
  const adopted: string[] = [];
  for (const name of SERVICE_SECRETS) {
    if (!asked[name] || !isMissing(options, texts, name)) continue;
    const key = (await readOwnKey?.(name))?.trim();
    if (!key) continue;
    texts.set(name, key);
    adopted.push(name);
  }
  return adopted;
}

function generateMissing(options: SecretOptions, texts: Map<string, string>): string[] {
  const { stored, generateApiKey, generateRsa, makeDatabaseUrl } = options;
  const missing = (name: string) => isMissing(options, texts, name);
  const generated: string[] = [];
  const make = (name: string, asked: boolean, value: () => string) => {
    if (!asked || !missing(name)) return;
    texts.set(name, value());
    generated.push(name);
  };
  make("SERVICE_API_KEY", generateApiKey, newApiKey);
  make("SERVICE_RSA_PRIVATE_KEY", generateRsa && !stored.some(({ name }) => isNumberedKey(name)), newRsaKey);
  // Nobody needs to know it.
  if (makeDatabaseUrl && missing(DATABASE_URL)) texts.set(DATABASE_URL, makeDatabaseUrl());
  return generated;
}

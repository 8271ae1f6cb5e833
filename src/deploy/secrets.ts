import { generateKeyPairSync, randomBytes } from "node:crypto";
import type { DeployConfig } from "./config.ts";
import { SERVICE_SECRETS } from "./config.ts";
import { DeployError } from "./errors.ts";
import type { SecretValue, StoredSecret } from "./platform.ts";
import { hashSecret } from "./secret-hash.ts";
import type { DeployTools } from "./tools.ts";

/** What becomes of the secrets of a deployment. */
export interface SecretPlan {
  /** Values known here, by variable. */
  readonly values: Readonly<Record<string, SecretValue>>;
  /** Those of `values` that the platform lacks or has otherwise. */
  readonly changed: readonly string[];
  /** Kept by the platform and not known here: they stay as they are. */
  readonly kept: readonly StoredSecret[];
  /** Given to what runs from elsewhere than this target's part of the vault; they stay as they are. */
  readonly unlisted: readonly string[];
  /** Kept by the platform and no longer asked for: they are not given to the service any more. */
  readonly unused: readonly StoredSecret[];
  /** Keys made for this deployment. */
  readonly generated: readonly string[];
}

export interface SecretOptions {
  readonly config: DeployConfig;
  /** Secrets of what runs that stay, although the configuration does not name them. */
  readonly keep: readonly string[];
  readonly tools: DeployTools;
  readonly target: string;
  readonly stored: readonly StoredSecret[];
  /** Hashes of the last deployment, for platforms that keep none. */
  readonly lastHashes: Readonly<Record<string, string>>;
  readonly generateApiKey: boolean;
  readonly generateRsa: boolean;
}

/** Gathers the secrets: of the config, of the environment, made anew where asked for and missing. */
export async function planSecrets(options: SecretOptions): Promise<SecretPlan> {
  const { config, tools, target, stored, lastHashes, keep } = options;
  const texts = new Map<string, string>();
  const wanted = new Set<string>([...SERVICE_SECRETS, ...keep]);
  for (const { name, value } of config.secrets) {
    wanted.add(name);
    const found = value ?? tools.env[name];
    if (found !== undefined && found !== "") texts.set(name, found);
    else if (!stored.some((secret) => secret.name === name))
      throw new DeployError("bad_config", `Secret ${name} has no value`, {
        detail: ".deployment/config.yaml names it without one, and the platform does not keep it yet",
        fix: `Give it for this command: ${name}=… svc deploy …, or write a value into the file`,
      });
  }
  for (const name of SERVICE_SECRETS) {
    const found = tools.env[name];
    if (found !== undefined && found !== "" && !texts.has(name)) texts.set(name, found);
  }
  const generated = generateMissing(options, texts);
  for (const text of texts.values()) tools.redact(text);

  const values: Record<string, SecretValue> = {};
  await Promise.all(
    [...texts].map(async ([name, value]) => {
      values[name] = { value, hash: await hashSecret(value, { target, name }) };
    }),
  );
  const changed = Object.keys(values).filter((name) => {
    const there = stored.find((secret) => secret.name === name);
    return there === undefined || (there.hash ?? lastHashes[name]) !== values[name]?.hash;
  });
  return {
    values,
    changed: changed.sort(),
    kept: stored.filter((secret) => wanted.has(secret.name) && values[secret.name] === undefined),
    unlisted: keep.filter(
      (name) => values[name] === undefined && !stored.some((secret) => secret.name === name),
    ),
    unused: stored.filter((secret) => !wanted.has(secret.name)),
    generated,
  };
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

function generateMissing(options: SecretOptions, texts: Map<string, string>): string[] {
  const { stored, generateApiKey, generateRsa } = options;
  const missing = (name: string) => !texts.has(name) && !stored.some((secret) => secret.name === name);
  const generated: string[] = [];
  const make = (name: string, asked: boolean, value: () => string) => {
    if (!asked || !missing(name)) return;
    texts.set(name, value());
    generated.push(name);
  };
  make("SERVICE_API_KEY", generateApiKey, newApiKey);
  make("SERVICE_RSA_PRIVATE_KEY", generateRsa, newRsaKey);
  return generated;
}

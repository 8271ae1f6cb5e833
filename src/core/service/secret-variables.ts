import { isNumberedKey } from "../base/numbered-keys.ts";

/** Variables whose values are credentials. */
const SECRETS = [
  "SERVICE_API_KEY",
  "SERVICE_PREVIOUS_API_KEY",
  "SERVICE_RSA_PRIVATE_KEY",
  "SERVICE_PREVIOUS_RSA_PRIVATE_KEY",
  "SERVICE_ENCRYPTION_KEYS",
  "SERVICE_ACCOUNT_API_KEY",
  "SERVICE_DATABASE_URL",
] as const;

type Variables = Record<string, string | undefined>;

/** What was removed from an environment: a second server in the process needs it too. */
const taken = new WeakMap<Variables, ReadonlyMap<string, string>>();

/**
 * The variables of an environment, its secrets included. The secrets are removed from `env` itself: programs that an
 * agent starts inherit `process.env`, and an agent's own code may print it.
 */
export function takeVariables(env: Variables = process.env): Readonly<Variables> {
  const secrets = new Map(taken.get(env));
  for (const name of [...SECRETS, ...Object.keys(env).filter(isNumberedKey)]) {
    const value = env[name];
    if (value !== undefined) secrets.set(name, value);
    delete env[name];
  }
  taken.set(env, secrets);
  return { ...env, ...Object.fromEntries(secrets) };
}

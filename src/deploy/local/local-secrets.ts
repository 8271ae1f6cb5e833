import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { readIfThere } from "../../core/base/read-if-there.ts";
import { writeAtomic } from "../atomic-file.ts";
import { DATABASE_URL, SERVICE_SECRETS } from "../config.ts";
import { DeployError } from "../errors.ts";
import { valueFromCommand } from "../secret-command.ts";
import { newApiKey, newRsaKey } from "../secrets.ts";
import { withoutLineEnd } from "../without-line-end.ts";
import type { LocalRun } from "./local-run.ts";

/** The secrets of a local test, and which of them were generated for it. */
export interface LocalSecrets {
  readonly values: Readonly<Record<string, string>>;
  readonly generated: readonly string[];
}

/** Folder of a local test's secrets: one file each, readable by the owner only. */
export function secretsFolder({ cwd, serviceName }: LocalRun): string {
  return join(cwd, ".deployment", "secrets", serviceName);
}

/** File in which a local test stores a secret that was generated for it. */
export function secretFile(run: LocalRun, name: string): string {
  return join(secretsFolder(run), name);
}

/** Whether the instances share a database, and whether that is one beside them. */
interface WithDatabase {
  readonly image: string | undefined;
}

/** The generated password of the database beside a local test: for its container alone. */
export const POSTGRES_PASSWORD = "POSTGRES_PASSWORD";

/** Names of the secrets that a local test passes to its service. */
export async function localSecretNames(run: LocalRun, database: WithDatabase | undefined): Promise<string[]> {
  const { options, config, tools } = run;
  const kept = await readdir(secretsFolder(run)).catch(() => []);
  const names = new Set([...config.secrets.map((secret) => secret.name), ...kept]);
  for (const name of SERVICE_SECRETS) if (tools.env[name]) names.add(name);
  // Instances that share a database need the same keys.
  if (options.generateApiKey || database) names.add("SERVICE_API_KEY");
  if (options.generateRsa || database) names.add("SERVICE_RSA_PRIVATE_KEY");
  if (database) names.add(DATABASE_URL);
  names.delete(POSTGRES_PASSWORD);
  return [...names].sort();
}

/** Collects the secrets: from the environment, the config, the last test, or newly generated. */
export async function gatherLocalSecrets(run: LocalRun, database?: WithDatabase): Promise<LocalSecrets> {
  const { tools, config } = run;
  const folder = secretsFolder(run);
  const values: Record<string, string> = {};
  const generated: string[] = [];
  const make: Record<string, () => string> = {
    SERVICE_API_KEY: newApiKey,
    SERVICE_RSA_PRIVATE_KEY: newRsaKey,
  };
  for (const name of await localSecretNames(run, database)) {
    if (name === DATABASE_URL && database?.image !== undefined) {
      const password = (await readIfThere(join(folder, POSTGRES_PASSWORD))) ?? newApiKey();
      tools.redact(password);
      await keep(run, POSTGRES_PASSWORD, password);
      values[name] = `postgres://service:${password}@postgres:5432/service?sslmode=disable`;
      continue;
    }
    const listed = config.secrets.find((secret) => secret.name === name);
    const given =
      withoutLineEnd(tools.env[name]) ??
      listed?.value ??
      (listed?.command && (await valueFromCommand({ name, command: listed.command }, tools, run.cwd)));
    const kept = given ? undefined : await readIfThere(join(folder, name));
    const value = given ?? kept ?? make[name]?.();
    if (value === undefined)
      throw new DeployError("bad_config", `Secret ${name} has no value`, {
        fix: `Set it for this command (${name}=… svc deploy local), or name a file that has it in deploy.yaml: ${name}: { file: path }`,
      });
    tools.redact(value);
    values[name] = value;
    if (given) continue;
    generated.push(name);
    if (kept === undefined) await keep(run, name, value);
  }
  return { values, generated };
}

async function keep(run: LocalRun, name: string, value: string): Promise<void> {
  const folder = secretsFolder(run);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  // Recorded before the file exists: an unrecorded key would be treated as somebody else's.
  await run.trusted.trust({ [`secrets/${run.serviceName}/${name}`]: value });
  await writeAtomic(join(folder, name), value, 0o600);
}

/** Forgets the secrets that were generated for local tests. */
export async function dropLocalSecrets(run: LocalRun): Promise<void> {
  await rm(secretsFolder(run), { recursive: true, force: true });
}

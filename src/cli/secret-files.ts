import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * Fills variables that are missing in `env` from files: each file in the folder `SERVICE_SECRETS_DIR` and its
 * subfolders becomes the variable of its name. A container can so receive its secrets as mounted files.
 */
export function readSecretFiles(env: Record<string, string | undefined>): void {
  const folder = env.SERVICE_SECRETS_DIR;
  // A service without secrets has nothing mounted there.
  if (!folder || !existsSync(folder)) return;
  for (const [name, path] of filesUnder(folder)) env[name] ??= readFileSync(path, "utf8");
}

/** These variables, and those that the files of secrets have. */
export function withSecretFiles(env: Readonly<Record<string, string | undefined>>): typeof env {
  const all = { ...env };
  readSecretFiles(all);
  return all;
}

function filesUnder(folder: string): [name: string, path: string][] {
  return readdirSync(folder).flatMap((name) => {
    // Kubernetes keeps earlier versions in folders whose names start with a dot, and links into them.
    if (name.startsWith(".")) return [];
    const path = join(folder, name);
    if (statSync(path).isDirectory()) return filesUnder(path);
    return VARIABLE.test(name) ? [[name, path]] : [];
  });
}

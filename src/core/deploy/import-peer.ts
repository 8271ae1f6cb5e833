import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { createJiti } from "jiti";
import { DeployError } from "./errors.ts";

/** Imports an optional package of the project, or of wherever this package is installed. */
export async function importPeer<T>(name: string, cwd: string): Promise<T> {
  try {
    return (await import(name)) as T;
  } catch (error) {
    if (!isMissing(error, name)) throw error;
  }
  const found = createJiti(pathToFileURL(join(cwd, "package.json")).href, { fsCache: false }).esmResolve(
    name,
    {
      try: true,
      conditions: ["node", "import"],
    },
  );
  if (found !== undefined) return (await import(found)) as T;
  throw new DeployError(
    "missing_package",
    `Package "${name}" is needed for this platform and not installed`,
    {
      fix: installCommand([name], cwd),
    },
  );
}

/** The command that adds packages to a project, in the words of its own package manager. */
export function installCommand(names: readonly string[], cwd: string): string {
  if (existsSync(join(cwd, "pnpm-lock.yaml"))) return `pnpm add ${names.join(" ")}`;
  if (existsSync(join(cwd, "yarn.lock"))) return `yarn add ${names.join(" ")}`;
  return `npm install ${names.join(" ")}`;
}

function isMissing(error: unknown, name: string): boolean {
  if (!(error instanceof Error) || !("code" in error)) return false;
  if (error.code !== "ERR_MODULE_NOT_FOUND" && error.code !== "MODULE_NOT_FOUND") return false;
  // A package that is there but lacks one of its own must say so itself.
  return error.message.includes(`'${name}'`);
}

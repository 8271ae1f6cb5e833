import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { createJiti } from "jiti";
import { DeployError } from "./errors.ts";

const { peerDependencies } = createRequire(import.meta.url)("../../package.json") as {
  peerDependencies: Readonly<Record<string, string>>;
};

/**
 * Imports an optional package of the project, or of wherever this package is installed. Where it is missing, the error's
 * command installs all that are missing of the packages needed together with it.
 */
export async function importPeer<T>(
  name: string,
  { cwd, together = [] }: { readonly cwd: string; readonly together?: readonly string[] },
): Promise<T> {
  try {
    return (await import(name)) as T;
  } catch (error) {
    if (!isMissing(error, name)) throw error;
  }
  const found = findInProject(name, cwd);
  if (found !== undefined) return (await import(found)) as T;
  const missing = [name, ...together.filter((other) => other !== name && !isThere(other, cwd))].sort();
  const packages = missing.map((one) => `"${one}"`).join(", ");
  throw new DeployError(
    "missing_package",
    missing.length === 1
      ? `Package ${packages} is needed for this platform and not installed`
      : `Packages ${packages} are needed for this platform and not installed`,
    { fix: installCommand(missing, cwd) },
  );
}

/** The command that adds packages to a project, in the words of its own package manager. */
export function installCommand(names: readonly string[], cwd: string): string {
  const packages = names.map(withMajor).join(" ");
  for (let folder = cwd; ; folder = dirname(folder)) {
    if (existsSync(join(folder, "pnpm-lock.yaml"))) return `pnpm add ${packages}`;
    if (existsSync(join(folder, "yarn.lock"))) return `yarn add ${packages}`;
    // Above the first lock file another project begins.
    if (existsSync(join(folder, "package-lock.json")) || folder === dirname(folder)) break;
  }
  return `npm install ${packages}`;
}

/** With the major version that this package works with: a later one may need a later Node. */
function withMajor(name: string): string {
  const major = /\d+/.exec(peerDependencies[name] ?? "")?.[0];
  return major === undefined ? name : `${name}@${major}`;
}

function isThere(name: string, cwd: string): boolean {
  try {
    import.meta.resolve(name);
    return true;
  } catch {
    return findInProject(name, cwd) !== undefined;
  }
}

function findInProject(name: string, cwd: string): string | undefined {
  const project = createJiti(pathToFileURL(join(cwd, "package.json")).href, { fsCache: false });
  return project.esmResolve(name, { try: true, conditions: ["node", "import"] });
}

function isMissing(error: unknown, name: string): boolean {
  if (!(error instanceof Error) || !("code" in error)) return false;
  if (error.code !== "ERR_MODULE_NOT_FOUND" && error.code !== "MODULE_NOT_FOUND") return false;
  // A package that is there but lacks one of its own must say so itself.
  return error.message.includes(`'${name}'`);
}

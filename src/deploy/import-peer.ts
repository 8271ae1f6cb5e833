import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { createJiti } from "jiti";
import { DeployError } from "./errors.ts";

/** The clients of clouds are no peers: a package manager would install them with the service. */
const { peerDependencies, devDependencies } = createRequire(import.meta.url)(
  "../../package.json",
) as Readonly<Record<"peerDependencies" | "devDependencies", Readonly<Record<string, string>>>>;

/**
 * Imports an optional package of the project, or from where this package is installed. If it is missing, the
 * error's command installs it and all other missing packages that are needed with it.
 */
export async function importPeer<T>(
  name: string,
  options: {
    readonly cwd: string;
    readonly together?: readonly string[];
    /** Whether the service itself does not need it, so that it stays out of its image. */
    readonly development?: boolean;
  },
): Promise<T> {
  const { cwd, together = [], development = false } = options;
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
      ? `Package ${packages} is required by this platform and not installed`
      : `Packages ${packages} are required by this platform and not installed`,
    { fix: installCommand(missing, cwd, development) },
  );
}

/**
 * The command that adds packages to a project with its own package manager; as development dependencies, they stay
 * out of its image.
 */
export function installCommand(names: readonly string[], cwd: string, development = false): string {
  const packages = names.map(withMajor).join(" ");
  const save = (flag: string) => (development ? `${flag} ` : "");
  for (let folder = cwd; ; folder = dirname(folder)) {
    if (existsSync(join(folder, "pnpm-lock.yaml"))) return `pnpm add ${save("--save-dev")}${packages}`;
    if (existsSync(join(folder, "yarn.lock"))) return `yarn add ${save("--dev")}${packages}`;
    // Above the first lock file is another project.
    if (existsSync(join(folder, "package-lock.json")) || folder === dirname(folder)) break;
  }
  return `npm install ${save("--save-dev")}${packages}`;
}

/** With the major version that this package works with: a later one may need a later Node. */
function withMajor(name: string): string {
  const major = /\d+/.exec(peerDependencies[name] ?? devDependencies[name] ?? "")?.[0];
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
  // An installed package that lacks one of its own dependencies must report that itself.
  return error.message.includes(`'${name}'`);
}

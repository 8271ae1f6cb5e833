import { existsSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { readIfThere } from "./atomic-file.ts";
import { withoutCredentials } from "./build-context.ts";
import { DeployError } from "./errors.ts";

export type PackageManager = "npm" | "pnpm" | "yarn";

/** What the deployment files need to know of a project. */
export interface Project {
  readonly packageManager: PackageManager;
  /** Such as `pnpm@10.4.1`, where the project says it. */
  readonly packageManagerVersion: string | undefined;
  readonly lockFile: string | undefined;
  /** Yarn 2 and later. */
  readonly yarnBerry: boolean;
  /** Files and folders besides package.json and the lock file that an install reads. */
  readonly installFiles: readonly string[];
  readonly hasBuild: boolean;
  readonly npmrcHasCredentials: boolean;
  /** Controller file relative to the project, with `/`. */
  readonly controller: string;
  /** Major version of the base image. */
  readonly nodeVersion: string;
}

interface Manifest {
  readonly packageManager?: string;
  readonly scripts?: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly workspaces?: unknown;
}

const DEFAULT_NODE = "22";

/** Reads what a project is made of; an error says what is missing in it. */
export async function readProject(
  cwd: string,
  options: { readonly sourceDir?: string; readonly controllerFile?: string } = {},
): Promise<Project> {
  const manifest = await readManifest(cwd);
  const packageManager = packageManagerOf(cwd, manifest);
  const npmrc = await readIfThere(join(cwd, ".npmrc"));
  return {
    packageManager,
    packageManagerVersion: manifest.packageManager?.split("+")[0],
    lockFile: LOCK_FILES[packageManager].find((file) => existsSync(join(cwd, file))),
    yarnBerry: packageManager === "yarn" && isBerry(cwd, manifest),
    installFiles: installFilesOf(cwd, manifest),
    hasBuild: manifest.scripts?.build !== undefined,
    npmrcHasCredentials: npmrc !== undefined && withoutCredentials(npmrc) !== npmrc.replaceAll("\r\n", "\n"),
    controller: controllerOf(cwd, options),
    nodeVersion: await nodeVersionOf(cwd),
  };
}

const LOCK_FILES: Readonly<Record<PackageManager, readonly string[]>> = {
  npm: ["package-lock.json", "npm-shrinkwrap.json"],
  pnpm: ["pnpm-lock.yaml"],
  yarn: ["yarn.lock"],
};

async function readManifest(cwd: string): Promise<Manifest> {
  const path = join(cwd, "package.json");
  const text = await readIfThere(path);
  if (text === undefined)
    throw new DeployError("usage", `There is no package.json in ${cwd}`, {
      fix: "Run the command in the folder of your project, or make one with svc init",
    });
  try {
    return JSON.parse(text) as Manifest;
  } catch (error) {
    throw new DeployError("usage", `${path} is not JSON`, {
      detail: (error as Error).message,
      fix: "Mend the file",
    });
  }
}

function packageManagerOf(cwd: string, { packageManager }: Manifest): PackageManager {
  const named = /^(npm|pnpm|yarn)@/.exec(packageManager ?? "")?.[1] as PackageManager | undefined;
  if (named) return named;
  const order: readonly PackageManager[] = ["pnpm", "yarn", "npm"];
  return order.find((one) => LOCK_FILES[one].some((file) => existsSync(join(cwd, file)))) ?? "npm";
}

function isBerry(cwd: string, { packageManager }: Manifest): boolean {
  return existsSync(join(cwd, ".yarnrc.yml")) || /^yarn@(?:[2-9]|\d\d)/.test(packageManager ?? "");
}

function installFilesOf(cwd: string, manifest: Manifest): string[] {
  const files = [".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn", "pnpm-workspace.yaml", "patches"].filter(
    (file) => existsSync(join(cwd, file)),
  );
  const wanted = { ...manifest.dependencies, ...manifest.devDependencies, ...manifest.optionalDependencies };
  for (const [name, version] of Object.entries(wanted)) {
    const local = /^(?:file|link|portal):(.+)$/.exec(version)?.[1];
    if (local === undefined) continue;
    const path = relative(cwd, resolve(cwd, local)).replaceAll("\\", "/");
    if (path.startsWith("..") || path === "")
      throw new DeployError("usage", `Dependency "${name}" (${version}) lies outside of the project`, {
        detail: "A container image is built from the project's folder alone",
        fix: `Pack it into the project: npm pack ${local}, then npm install ./<the file>`,
      });
    if (!existsSync(join(cwd, path)))
      throw new DeployError("usage", `Dependency "${name}" (${version}) is not there`, {
        fix: `Put ${path} in its place, or change the dependency in package.json`,
      });
    files.push(path);
  }
  return [...new Set(files)].sort();
}

function controllerOf(cwd: string, options: { sourceDir?: string; controllerFile?: string }): string {
  const folder = (options.sourceDir ?? "src").replaceAll("\\", "/").replace(/^\.\//, "").replace(/\/+$/, "");
  const inside = (file: string) => (folder === "" || folder === "." ? file : `${folder}/${file}`);
  const candidates =
    options.controllerFile === undefined
      ? ["controller.ts", "controller.mts", "controller.js", "controller.mjs"].map(inside)
      : [inside(options.controllerFile)];
  const found = candidates.find((file) => existsSync(join(cwd, file)));
  if (found !== undefined) return found;
  throw new DeployError("usage", `There is no ${candidates[0]} in ${cwd}`, {
    fix: "Name your controller with --source-dir and --controller-file, or make a project with svc init",
  });
}

async function nodeVersionOf(cwd: string): Promise<string> {
  const written = (await readIfThere(join(cwd, ".nvmrc"))) ?? (await readIfThere(join(cwd, ".node-version")));
  const major = /^v?(\d+)/.exec(written?.trim() ?? "")?.[1];
  return major !== undefined && Number(major) >= 20 ? major : DEFAULT_NODE;
}

import { existsSync } from "node:fs";
import { basename, join, relative, resolve } from "node:path";
import intersects from "semver/ranges/intersects.js";
import validRange from "semver/ranges/valid.js";
import { readIfThere } from "../core/base/read-if-there.ts";
import type { ContextSource } from "./context-files.ts";
import { DeployError } from "./errors.ts";
import { LOCK_FILES, type PackageManager } from "./lock-files.ts";
import { SETTINGS_FILES, withoutCredentials } from "./without-credentials.ts";
import { checkWorkspace, type WorkspaceContext, workspaceOf } from "./workspace.ts";

/** What the deployment files need to know about a project. */
export interface Project extends ContextSource {
  readonly packageManager: PackageManager;
  /** Such as `pnpm@10.4.1`, if the project declares it. */
  readonly packageManagerVersion: string | undefined;
  readonly lockFile: string | undefined;
  /** Yarn 2 and later. */
  readonly yarnBerry: boolean;
  /** Other files and folders that an install reads, besides package.json and the lock file. */
  readonly installFiles: readonly string[];
  readonly hasBuild: boolean;
  /** Install settings that contain a login, below `root`: visible to a build only while it installs. */
  readonly secretFiles: readonly string[];
  /** The workspace that the package belongs to, from whose root the image is built; paths are below that root. */
  readonly workspace: Pick<WorkspaceContext, "members" | "used"> | undefined;
  /** Names of the packages that are installed in the image. */
  readonly dependencies: readonly string[];
  /** Major version of the base image. */
  readonly nodeVersion: string;
}

interface Manifest {
  readonly engines?: { readonly node?: string };
  readonly packageManager?: string;
  readonly scripts?: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** Major versions with an image, the preferred one first. */
const NODE_VERSIONS = ["22", "24", "20"];

/** Reads a project's structure; an error says what is missing. */
export async function readProject(
  cwd: string,
  options: { readonly sourceDir?: string; readonly controllerFile?: string } = {},
): Promise<Project> {
  const manifest = await readManifest(cwd);
  const workspace = await workspaceOf(cwd);
  const root = workspace?.root ?? cwd;
  const top = workspace ? await readManifest(root) : manifest;
  const packageManager = packageManagerOf(root, top);
  const lockFile = LOCK_FILES[packageManager].find((file) => existsSync(join(root, file)));
  if (!workspace)
    await checkWorkspace({ cwd, packageManager, lockFile, dependencies: dependenciesOf(manifest) });
  else if (lockFile === undefined)
    throw new DeployError("usage", `The workspace in ${root} has no lock file of ${packageManager}`, {
      detail: `Its package.json names ${packageManager}, and ${basename(workspace.lockFile)} was written by another one`,
      outcome: "Nothing was built",
      fix: `Correct "packageManager" there, or run ${packageManager} install and commit its lock file`,
    });
  const used = workspace?.used.map(({ folder }) => folder) ?? [];
  return {
    root,
    folder: workspace?.folder ?? "",
    unused: workspace?.members.filter((folder) => !used.includes(folder)) ?? [],
    packageManager,
    packageManagerVersion: versionOf(top),
    lockFile,
    yarnBerry: packageManager === "yarn" && isBerry(root, top),
    installFiles: [
      ...installFilesOf(root, "", dependenciesOf(top)),
      ...(workspace?.used ?? []).flatMap((one) => localFilesOf(root, one.folder, one.dependencies)),
    ],
    hasBuild: workspace ? workspace.used.some((one) => one.hasBuild) : manifest.scripts?.build !== undefined,
    secretFiles: await secretFilesOf(root),
    controller: controllerOf(cwd, options),
    workspace,
    dependencies: Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies }),
    nodeVersion: await nodeVersionOf(cwd, root, manifest.engines ?? top.engines),
  };
}

async function readManifest(cwd: string): Promise<Manifest> {
  const path = join(cwd, "package.json");
  const text = await readIfThere(path);
  if (text === undefined)
    throw new DeployError("usage", `There is no package.json in ${cwd}`, {
      fix: "Run the command in your project's folder, or create a project with svc init",
    });
  try {
    return JSON.parse(text) as Manifest;
  } catch (error) {
    throw new DeployError("usage", `${path} is not JSON`, {
      detail: (error as Error).message,
      fix: "Fix the file",
    });
  }
}

function dependenciesOf(manifest: Manifest): Record<string, string> {
  return { ...manifest.dependencies, ...manifest.devDependencies, ...manifest.optionalDependencies };
}

/** Install settings from which credentials are removed. */
async function secretFilesOf(folder: string): Promise<string[]> {
  const files: string[] = [];
  for (const file of SETTINGS_FILES) {
    const text = await readIfThere(join(folder, file));
    if (text !== undefined && withoutCredentials(file, text) !== text) files.push(file);
  }
  return files;
}

/** The package manager with its version, which is inserted into the Dockerfile. */
function versionOf({ packageManager }: Manifest): string | undefined {
  if (packageManager === undefined) return undefined;
  const found =
    typeof packageManager === "string" &&
    /^((?:npm|pnpm|yarn|bun)@\d+(?:\.\d+){0,2}(?:-[0-9A-Za-z.-]+)?)(?:\+[0-9A-Za-z.-]+)?$/.exec(
      packageManager,
    );
  if (found) return found[1];
  throw new DeployError("usage", `"packageManager" in package.json is ${JSON.stringify(packageManager)}`, {
    detail: "It must be npm, pnpm, yarn or bun with an exact version, such as pnpm@10.4.1",
    outcome: "Nothing was built",
    fix: "Correct it in package.json, or remove it: the lock file also identifies the package manager",
  });
}

function packageManagerOf(cwd: string, { packageManager }: Manifest): PackageManager {
  const named = /^(npm|pnpm|yarn|bun)@/.exec(packageManager ?? "")?.[1] as PackageManager | undefined;
  if (named) return named;
  const order: readonly PackageManager[] = ["pnpm", "yarn", "bun", "npm"];
  return order.find((one) => LOCK_FILES[one].some((file) => existsSync(join(cwd, file)))) ?? "npm";
}

function isBerry(cwd: string, { packageManager }: Manifest): boolean {
  return existsSync(join(cwd, ".yarnrc.yml")) || /^yarn@(?:[2-9]|\d\d)/.test(packageManager ?? "");
}

/** Files and folders besides package.json and the lock file that an install at a root reads. */
function installFilesOf(root: string, folder: string, dependencies: Record<string, string>): string[] {
  const names = [
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".yarn",
    "bunfig.toml",
    "pnpm-workspace.yaml",
    "patches",
  ];
  const files = names.filter((file) => existsSync(join(root, file)));
  return [...new Set([...files, ...localFilesOf(root, folder, dependencies)])].sort();
}

/** Packages of the project itself, or of a package of its workspace in a folder, that are files below the root. */
function localFilesOf(
  root: string,
  folder: string,
  dependencies: Readonly<Record<string, string>>,
): string[] {
  const files: string[] = [];
  for (const [name, version] of Object.entries(dependencies)) {
    const local = /^(?:file|link|portal):(.+)$/.exec(version)?.[1];
    if (local === undefined) continue;
    const path = relative(root, resolve(root, folder, local)).replaceAll("\\", "/");
    if (path.startsWith("..") || path === "")
      throw new DeployError("usage", `Dependency "${name}" (${version}) is outside the project`, {
        detail: "A container image is built only from the project's folder",
        fix: `Pack it into the project: npm pack ${local}, then npm install ./<the file>`,
      });
    if (!existsSync(join(root, path)))
      throw new DeployError("usage", `Dependency "${name}" (${version}) does not exist`, {
        fix: `Add ${path}, or change the dependency in package.json`,
      });
    files.push(path);
  }
  return files;
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
    fix: "Set your controller with --source-dir and --controller-file, or create a project with svc init",
  });
}

/** The version that the project names, else the first of ours that its `engines.node` allows. */
async function nodeVersionOf(cwd: string, root: string, engines: Manifest["engines"]): Promise<string> {
  const places = [cwd, root].flatMap((folder) => [join(folder, ".nvmrc"), join(folder, ".node-version")]);
  const written = (await Promise.all(places.map(readIfThere))).find((text) => text !== undefined);
  const major = /^v?(\d+)/.exec(written?.trim() ?? "")?.[1];
  if (major !== undefined && Number(major) >= 20) return major;
  const range = validRange(engines?.node ?? "*");
  const allowed = NODE_VERSIONS.find((one) => intersects(`^${one}`, range ?? "*"));
  if (allowed !== undefined) return allowed;
  throw new DeployError("usage", `"engines.node" in package.json is ${JSON.stringify(engines?.node)}`, {
    detail: `An image can have Node ${[...NODE_VERSIONS].sort().join(", ")}`,
    outcome: "Nothing was built",
    fix: "Allow one of these, or write another version to .nvmrc",
  });
}

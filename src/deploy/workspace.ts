import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { parse } from "yaml";
import { parseJson } from "../core/base/parse-json.ts";
import { readIfThere } from "../core/base/read-if-there.ts";
import { parseIgnore } from "./dockerignore.ts";
import { DeployError } from "./errors.ts";
import { LOCK_FILES, type PackageManager } from "./lock-files.ts";

/** A workspace of npm, pnpm, yarn or bun that contains a project. */
interface Workspace {
  /** Its root, absolute. */
  readonly root: string;
  /** Whether the project is one of its packages. */
  readonly isMember: boolean;
  readonly lockFile: string | undefined;
  readonly patterns: readonly string[];
}

/** One of the packages of a workspace. */
export interface Member {
  /** Below the root, with `/`. */
  readonly folder: string;
  readonly name: string | undefined;
  readonly hasBuild: boolean;
  /** All dependencies, by name. */
  readonly dependencies: Readonly<Record<string, string>>;
}

/** What the image of a package of a workspace is built from. */
export interface WorkspaceContext {
  /** Its root, absolute. */
  readonly root: string;
  /** The project's folder below it, with `/`. */
  readonly folder: string;
  /** At the root, absolute. */
  readonly lockFile: string;
  /** Folders of all its packages. */
  readonly members: readonly string[];
  /** The packages that the project needs, each after what it needs itself; the last one is the project. */
  readonly used: readonly Member[];
}

/** The part of a project that is checked. */
export interface WorkspaceUser {
  readonly cwd: string;
  readonly packageManager: PackageManager;
  /** The project's own lock file. */
  readonly lockFile: string | undefined;
  /** All dependencies, by name. */
  readonly dependencies: Readonly<Record<string, string>>;
}

const EACH_LOCK_FILE = Object.values(LOCK_FILES).flat();

/** The workspace whose lock file determines a project's versions; undefined where the project has its own versions. */
export async function workspaceOf(cwd: string): Promise<WorkspaceContext | undefined> {
  if (EACH_LOCK_FILE.some((file) => existsSync(join(cwd, file))) || (await readPatterns(cwd)) !== undefined)
    return undefined;
  const workspace = await findWorkspace(cwd);
  if (!workspace?.isMember || workspace.lockFile === undefined) return undefined;
  const { root, patterns, lockFile } = workspace;
  const folder = relative(root, cwd).replaceAll("\\", "/");
  const members = await membersOf(root, patterns);
  const byName = new Map(members.map((member) => [member.name, member]));
  const used = new Set<Member>();
  const open = new Set<Member>();
  const visit = (member: Member): void => {
    if (used.has(member) || open.has(member)) return;
    open.add(member);
    for (const name of Object.keys(member.dependencies)) {
      const found = byName.get(name);
      if (found) visit(found);
    }
    used.add(member);
  };
  const project = members.find((member) => member.folder === folder);
  if (!project) return undefined;
  visit(project);
  return { root, folder, lockFile, members: members.map((member) => member.folder), used: [...used] };
}

async function membersOf(root: string, patterns: readonly string[]): Promise<Member[]> {
  const members: Member[] = [];
  for (const path of await manifestsBelow(root)) {
    const folder = relative(root, dirname(path)).replaceAll("\\", "/");
    if (folder === "" || !isMember(patterns, folder)) continue;
    const manifest = parseJson((await readIfThere(path)) ?? "{}") as Manifest | undefined;
    if (manifest === undefined)
      throw new DeployError("usage", `${path} is not JSON`, {
        outcome: "Nothing was built",
        fix: "Fix the file: it is a package of this project's workspace",
      });
    const { name, scripts, dependencies, devDependencies, optionalDependencies } = manifest;
    members.push({
      folder,
      name: typeof name === "string" ? name : undefined,
      hasBuild: scripts?.build !== undefined,
      dependencies: { ...dependencies, ...devDependencies, ...optionalDependencies },
    });
  }
  return members.sort((a, b) => (a.folder < b.folder ? -1 : 1));
}

/**
 * Rejects if an image of only the project's folder would differ from what the surrounding workspace declares:
 * other versions than in its lock file, or whatever a public registry has under the name of one of its
 * packages.
 */
export async function checkWorkspace(project: WorkspaceUser): Promise<void> {
  const { cwd, dependencies, lockFile } = project;
  const protocol = Object.entries(dependencies).find(([, version]) => version.startsWith("workspace:"));
  const workspace = await findWorkspace(cwd);
  if (protocol)
    throw refused(
      project,
      workspace,
      `Dependency "${protocol[0]}" (${protocol[1]}) is a package of a workspace`,
    );
  const own = (await readPatterns(cwd)) !== undefined;
  if (own && (await isInstalledByLock(project))) return;
  // A project below the root with its own lock file determines its own versions.
  if (!own && (workspace === undefined || lockFile !== undefined)) return;
  const root = own ? cwd : (workspace?.root ?? cwd);
  const wanted = Object.keys(dependencies).filter((name) => !isFile(dependencies[name] ?? ""));
  const names = wanted.length === 0 ? new Set<string>() : await packageNames(root, cwd);
  const shared = wanted.find((name) => names.has(name));
  if (shared !== undefined)
    throw refused(
      project,
      workspace,
      `Dependency "${shared}" (${dependencies[shared]}) is a package of this repository`,
    );
}

/**
 * Whether a workspace's root can be installed from its manifest and lock file alone: npm's lock file has
 * everything.
 */
async function isInstalledByLock({ cwd, packageManager, lockFile }: WorkspaceUser): Promise<boolean> {
  if (packageManager !== "npm" || lockFile === undefined) return false;
  const lock = JSON.parse((await readIfThere(join(cwd, lockFile))) ?? "{}") as { packages?: object };
  const nested = Object.keys(lock.packages ?? {}).find((path) =>
    /^(?!node_modules\/).*\/node_modules\//.test(path),
  );
  if (nested === undefined) return true;
  throw new DeployError("usage", `A package of this workspace has modules of its own: ${nested}`, {
    detail: "The image gets only the modules of the workspace's root, so that package would lack it",
    outcome: "Nothing was built",
    fix: "Make the versions in the workspace's packages agree, and run npm dedupe",
  });
}

/** The nearest folder above that declares packages, up to the one that contains the repository. */
async function findWorkspace(cwd: string): Promise<Workspace | undefined> {
  let folder = cwd;
  while (!existsSync(join(folder, ".git")) && dirname(folder) !== folder) {
    folder = dirname(folder);
    const patterns = await readPatterns(folder);
    if (patterns === undefined) continue;
    return {
      root: folder,
      isMember: isMember(patterns, relative(folder, cwd).replaceAll("\\", "/")),
      lockFile: EACH_LOCK_FILE.map((file) => join(folder, file)).find((path) => existsSync(path)),
      patterns,
    };
  }
  return undefined;
}

/** The patterns of a workspace's packages; undefined if the folder is not a workspace root. */
async function readPatterns(folder: string): Promise<string[] | undefined> {
  try {
    const pnpm = await readIfThere(join(folder, "pnpm-workspace.yaml"));
    const fromPnpm =
      pnpm === undefined ? undefined : (parse(pnpm) as { packages?: unknown } | null)?.packages;
    if (fromPnpm !== undefined) return texts(fromPnpm);
    const manifest = JSON.parse((await readIfThere(join(folder, "package.json"))) ?? "{}") as {
      workspaces?: unknown;
    };
    const { workspaces } = manifest;
    if (workspaces === undefined || workspaces === null) return undefined;
    return texts(Array.isArray(workspaces) ? workspaces : (workspaces as { packages?: unknown }).packages);
  } catch (error) {
    throw new DeployError("usage", `The workspace in ${folder} cannot be read`, {
      detail: (error as Error).message,
      outcome: "Nothing was built",
      fix: "Fix package.json or pnpm-workspace.yaml there",
      cause: error,
    });
  }
}

function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}

function isMember(patterns: readonly string[], folder: string): boolean {
  let member = false;
  for (const pattern of patterns) {
    const negated = pattern.startsWith("!");
    const path = pattern.replace(/^!/, "").replace(/^(?:\.?\/)+|\/+$/g, "");
    // A rule also matches everything below a match: without `**` a package is exactly as deep as its pattern.
    const deep = path.includes("**") || path.split("/").length === folder.split("/").length;
    if (deep && parseIgnore(path).ignores(folder)) member = !negated;
  }
  return member;
}

/** Names of the packages below a folder, except the project itself. */
async function packageNames(root: string, cwd: string): Promise<Set<string>> {
  const names = new Set<string>();
  for (const path of await manifestsBelow(root)) {
    if (root !== cwd && `${dirname(path)}${sep}`.startsWith(cwd + sep)) continue;
    // What is not JSON is a fixture or a template in the repository; npm could not install it either.
    const manifest = parseJson((await readIfThere(path)) ?? "{}") as Manifest | undefined;
    const name = manifest?.name;
    if (typeof name === "string") names.add(name);
  }
  return names;
}

/** All package.json below a folder. */
async function manifestsBelow(root: string): Promise<string[]> {
  const found: string[] = [];
  const visit = async (folder: string): Promise<void> => {
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) {
        if (entry.name !== "node_modules" && entry.name !== ".git") await visit(path);
      } else if (entry.name === "package.json") found.push(path);
    }
  };
  await visit(root);
  return found;
}

interface Manifest {
  readonly name?: unknown;
  readonly scripts?: { readonly build?: unknown };
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

function isFile(version: string): boolean {
  return /^(?:file|link|portal):/.test(version);
}

const INSTALL = {
  npm: "npm install --no-workspaces ./<the file>",
  pnpm: "pnpm add --ignore-workspace ./<the file>",
  yarn: "yarn add ./<the file>, in a folder with its own yarn.lock",
  bun: "bun add ./<the file>, in a folder with its own bun.lock",
} as const;
const LOCK = {
  npm: "npm install --no-workspaces --package-lock-only",
  pnpm: "pnpm install --ignore-workspace --lockfile-only",
  yarn: "yarn install, in a folder with its own yarn.lock",
  bun: "bun install --lockfile-only, in a folder with its own bun.lock",
} as const;

function refused(
  { packageManager, cwd }: WorkspaceUser,
  workspace: Workspace | undefined,
  message: string,
): DeployError {
  const where = workspace === undefined ? "" : ` (workspace ${relative(cwd, workspace.root) || "."})`;
  return new DeployError("usage", `${message}${where}`, {
    detail:
      "An image is built only from the project's folder: without that lock file it gets different versions, and a package of the repository would be looked up in the public registry",
    outcome: "Nothing was built",
    fix: `Make the project a package of the workspace and commit the lock file of its root: the image is then built from the root. Or give the project its own lock file: pack each package of the repository that it uses (${packageManager} pack) into its folder and add it with "${INSTALL[packageManager]}"; if it uses none, run "${LOCK[packageManager]}". Or bundle the project with its imports into a separate folder, and deploy that folder`,
  });
}

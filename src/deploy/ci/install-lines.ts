import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Project } from "../project.ts";

/** Scripts that npm runs by itself when it installs a project. */
const OWN_SCRIPTS = ["preinstall", "install", "postinstall", "prepare"] as const;

interface Locked {
  readonly hasInstallScript?: boolean;
  readonly link?: boolean;
}

/**
 * The lines that install the packages of a job, which may sign in to a platform. With npm, only those packages run their scripts
 * that have one by the lock file now: one that a later version brings is not run. Other managers have a list of their own.
 */
export async function installLines(project: Project, installAll: string): Promise<string[]> {
  if (project.packageManager !== "npm" || project.lockFile === undefined) return [installAll];
  const lock = JSON.parse(await readFile(join(project.root, project.lockFile), "utf8")) as {
    readonly packages?: Readonly<Record<string, Locked>>;
  };
  const { packages } = lock;
  // A lock file of npm 6 does not say which packages have scripts; packages of a workspace have theirs, too.
  if (packages === undefined || Object.values(packages).some(({ link }) => link)) return [installAll];
  const { scripts = {} } = JSON.parse(await readFile(join(project.root, "package.json"), "utf8")) as {
    readonly scripts?: Readonly<Record<string, string>>;
  };
  const names = Object.entries(packages)
    .filter(([path, { hasInstallScript }]) => path !== "" && hasInstallScript === true)
    .map(([path]) => path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length));
  const unique = [...new Set(names)].sort();
  return [
    `${installAll} --ignore-scripts`,
    ...(unique.length === 0 ? [] : [`npm rebuild ${unique.join(" ")}`]),
    ...OWN_SCRIPTS.filter((name) => scripts[name] !== undefined).map((name) => `npm run ${name}`),
  ];
}

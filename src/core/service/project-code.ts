import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

const SOURCE = /\.[cm]?[jt]sx?$/;
const LOCK_FILES = /^(package-lock\.json|npm-shrinkwrap\.json|pnpm-lock\.yaml|yarn\.lock|bun\.lockb?)$/;
/** What no agent is made of. */
const NOT_SOURCE = /(\.d\.[cm]?ts|[.-](test|spec|bench)\.[cm]?[jt]sx?)$/;
const NOT_SOURCES = new Set(["node_modules", "test", "tests", "__tests__", "coverage", "docs", "bench"]);
const MOST_FILES = 5000;

/**
 * A hash of a project's source files and of its lock file, which covers its packages. The project is the
 * folder at or above `folder` that has a package.json; without one the answer is empty. Tests, declarations,
 * hidden folders and all that is no JavaScript or TypeScript do not count.
 */
export function fingerprintOfProject(folder: string): string {
  const root = rootOf(folder);
  if (root === undefined) return "";
  const hash = createHash("sha256");
  for (const file of filesIn(root)) {
    hash
      .update(`${relative(root, file)}\0`)
      .update(readFileSync(file))
      .update("\0");
  }
  return hash.digest("base64url");
}

function rootOf(folder: string): string | undefined {
  if (existsSync(join(folder, "package.json"))) return folder;
  const parent = dirname(folder);
  return parent === folder ? undefined : rootOf(parent);
}

function filesIn(root: string): string[] {
  const files: string[] = [];
  const folders = [root];
  for (
    let folder = folders.pop();
    folder !== undefined && files.length < MOST_FILES;
    folder = folders.pop()
  ) {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) {
        if (!entry.name.startsWith(".") && !NOT_SOURCES.has(entry.name)) folders.push(path);
      } else if (entry.isFile() && isCode(entry.name)) files.push(path);
    }
  }
  return files.sort();
}

function isCode(name: string): boolean {
  return LOCK_FILES.test(name) || (SOURCE.test(name) && !NOT_SOURCE.test(name));
}

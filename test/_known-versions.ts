import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Packages that a new project gets through others, and whose versions of a day may lack what they name. */
const THROUGH_OTHERS = ["vite"];

/** Has npm resolve packages of a new project as those of this repository: what appears today is not the subject. */
export function useKnownVersions(cwd: string): void {
  const file = join(cwd, "package.json");
  const overrides = Object.fromEntries(THROUGH_OTHERS.map((name) => [name, versionOf(name)]));
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), overrides }, null, 2));
}

function versionOf(name: string): string {
  const file = new URL(`../node_modules/${name}/package.json`, import.meta.url);
  return (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
}

import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const TYPES = join(ROOT, ".types");
const TSC = join(ROOT, "node_modules/typescript/bin/tsc");

/** Writes the declarations of the entries, and those that they are made of; areas that have not changed are not compiled again. */
export function writeTypes(folder: string): void {
  execFileSync(process.execPath, [TSC, "-b", "areas/face.json"], { cwd: ROOT, stdio: "inherit" });
  for (const file of declarationsOf(entries())) {
    const target = join(folder, relative(TYPES, file));
    mkdirSync(dirname(target), { recursive: true });
    copyFileSync(file, target);
  }
}

/** The declarations of what package.json exports. */
function entries(): string[] {
  const { exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    exports: Record<string, { types?: string } | string>;
  };
  return Object.values(exports).flatMap((entry) =>
    typeof entry === "object" && entry.types ? [join(TYPES, relative("dist", entry.types))] : [],
  );
}

/** All declarations of this package that the compiler reads for some of them. */
function declarationsOf(files: readonly string[]): string[] {
  const options = "--ignoreConfig --listFilesOnly --module nodenext --allowImportingTsExtensions --noEmit";
  const listed = execFileSync(process.execPath, [TSC, ...options.split(" "), ...files], { encoding: "utf8" });
  return listed.split("\n").filter((file) => file.startsWith(TYPES + sep));
}

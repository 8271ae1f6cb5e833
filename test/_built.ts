import { execFile } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import { copyFile, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { writeTypes } from "../areas/write-types.ts";
import { writeTemplates } from "../write-templates.ts";
import { once } from "./_once.ts";

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** The package as users get it: built, in a folder of its own that is removed at the end. */
export interface BuiltPackage extends AsyncDisposable {
  readonly folder: string;
  /** The main file, for `import`. */
  readonly entry: string;
  /** Folders that its links lead to, besides the repository. */
  readonly linked: readonly string[];
}

/** The folder whose `dist` is built from the sources as they are now: by `npm test`, or by this run where that is older. */
export async function findBuild(): Promise<string> {
  return isCurrent() ? ROOT : once("built", build);
}

/** The package with a folder around it that a test may write to. */
export async function buildPackage(): Promise<BuiltPackage> {
  const build = await findBuild();
  const folder = await mkdtemp(join(tmpdir(), "built-"));
  await symlink(join(build, "dist"), join(folder, "dist"));
  await addSurroundings(folder);
  return {
    folder,
    entry: join(folder, "dist/index.js"),
    linked: build === ROOT ? [] : [build],
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

/** What `npm pack` reports about the tarball that it created. */
export interface PackedPackage {
  readonly tarball: string;
  /** Bytes of the tarball. */
  readonly size: number;
  readonly files: readonly { readonly path: string }[];
}

/** Packs what `dist` holds as npm publishes it. The tarball is for all files of the run. */
export async function packPackage(): Promise<PackedPackage> {
  const folder = await once("packed", async (into) => {
    const args = ["pack", "--json", "--ignore-scripts", "--pack-destination", into];
    const { stdout } = await run("npm", args, { cwd: ROOT, maxBuffer: 1 << 24 });
    await writeFile(join(into, "told.json"), stdout);
  });
  const [{ filename, size, files }] = JSON.parse(await readFile(join(folder, "told.json"), "utf8"));
  return { tarball: join(folder, filename), size, files };
}

/** Whether nothing was changed since `dist` was built. */
function isCurrent(): boolean {
  const changed = (path: string) => statSync(join(ROOT, path), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const sources = readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" });
  const files = [
    "package.json",
    "tsconfig.base.json",
    "rolldown.config.ts",
    "areas/write-types.ts",
    "compile-templates.ts",
    "write-templates.ts",
    ...sources.map((name) => join("src", name)),
  ];
  return Math.max(...files.map(changed)) < changed("dist/index.js");
}

async function build(folder: string): Promise<void> {
  writeTypes(join(folder, "dist"));
  const { build } = await import("rolldown");
  const { default: config } = await import("../rolldown.config.ts");
  await build({ ...config, output: { ...config.output, dir: join(folder, "dist") } });
  writeTemplates(join(folder, "dist/templates"));
  await addSurroundings(folder);
}

/** What modules of `dist` look for beside it. */
async function addSurroundings(folder: string): Promise<void> {
  await copyFile(join(ROOT, "package.json"), join(folder, "package.json"));
  await symlink(join(ROOT, "node_modules"), join(folder, "node_modules"));
}

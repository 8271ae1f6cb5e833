import { spawnSync } from "node:child_process";
import { copyFile, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** The package as users get it: built, in a folder of its own that is removed at the end. */
export interface BuiltPackage extends AsyncDisposable {
  readonly folder: string;
  /** The main file, for `import`. */
  readonly entry: string;
}

/** Builds the sources as they are now, beside whatever `dist` holds. */
export async function buildPackage(): Promise<BuiltPackage> {
  const folder = await mkdtemp(join(tmpdir(), "built-"));
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  const built = spawnSync(
    process.execPath,
    [tsc, "-p", "tsconfig.build.json", "--outDir", join(folder, "dist")],
    {
      cwd: ROOT,
      encoding: "utf8",
    },
  );
  if (built.status !== 0) throw new Error(`The build failed:\n${built.stdout}${built.stderr}`);
  await copyFile(join(ROOT, "package.json"), join(folder, "package.json"));
  for (const name of ["node_modules", "public", "templates"])
    await symlink(join(ROOT, name), join(folder, name));
  return {
    folder,
    entry: join(folder, "dist/index.js"),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

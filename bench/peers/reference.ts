import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** The folder of the build of a commit, which is made once, outside of the repository; `undefined` where that fails. */
export async function buildOf(commit: string): Promise<string | undefined> {
  const folder = join(tmpdir(), `bench-reference-${commit}`);
  if (existsSync(join(folder, "dist/index.js"))) return join(folder, "dist");
  const making = `${folder}.${process.pid}`;
  try {
    await mkdir(making);
    const archive = `${making}.tar`;
    await run("git", ["archive", "-o", archive, commit], { cwd: ROOT });
    await run("tar", ["-xf", archive, "-C", making]);
    await rm(archive);
    await run("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], { cwd: making });
    await run("npm", ["run", "build", "--silent"], { cwd: making });
    await rename(making, folder);
    return join(folder, "dist");
  } catch (error) {
    console.log(`  no build of ${commit} to compare with: ${error instanceof Error ? error.message : error}`);
    await rm(making, { recursive: true, force: true });
    return undefined;
  }
}
